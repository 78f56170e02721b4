// Package loader kills real workers (kill -9) at the instant of every fault that
// the loader's table allows, and judges what the search server, the errors topic
// and the ledger hold in the end. Each cell has a stack, a broker, a search
// server and a worker of its own. The broker is the embedded stack's, in the
// test's own process, so that it can misbehave at a chosen moment.
//
// It refuses to measure time: what a fault costs is in the hermetic matrix of
// internal/ingest, on a fake clock.
package loader

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"trawl/dev/e2e/harness"
	"trawl/internal/ingest"
)

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }

// allCells is set for every cell; else a dozen are run, some of each state.
const allCells = "LOADER_CELLS"

// pair of state and class.
type pair struct {
	state ingest.State
	class ingest.Class
}

func (p pair) String() string { return fmt.Sprintf("%s-%02d-%s", p.state, int(p.class), p.class) }

// matrix lists the pairs that the table allows, and why the others are not.
func matrix() (allowed []pair, never map[pair]string) {
	never = map[pair]string{}
	ingest.Table(func(s ingest.State, e ingest.Event, step ingest.Step) {
		p := pair{s, ingest.Class(e)}
		switch {
		case e >= ingest.Configured:
		case step.Do == ingest.Impossible:
			never[p] = step.Why
		default:
			allowed = append(allowed, p)
		}
	})
	return allowed, never
}

// Every pair has a fault here, or a reason why no program can be made to meet it.
func TestKillsAreComplete(t *testing.T) {
	allowed, never := matrix()
	for _, p := range allowed {
		_, made := faults[p]
		_, hermetic := hermeticOnly[p]
		if made == hermetic {
			t.Errorf("%s: a fault %t, a reason why there is none %t: it has to be exactly one", p, made, hermetic)
		}
	}
	for p := range faults {
		if why, ok := never[p]; ok {
			t.Errorf("%s has a fault, and cannot happen: %s", p, why)
		}
	}
}

// cell is a fault at which the worker is killed.
type cell struct {
	name string
	pair
	fault
}

// run kills a worker in every cell that is asked for, and gives what happened.
func run(t *testing.T, cells []cell) map[string]string {
	t.Helper()
	var mu sync.Mutex
	outcome := map[string]string{}
	t.Run("cells", func(t *testing.T) {
		for _, c := range cells {
			if os.Getenv(allCells) == "" && !c.short {
				continue
			}
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				said := kill(t, c)
				mu.Lock()
				defer mu.Unlock()
				outcome[c.name] = said
			})
		}
	})
	return outcome
}

func TestKill(t *testing.T) {
	allowed, never := matrix()
	var cells []cell
	for _, p := range allowed {
		if f, made := faults[p]; made {
			cells = append(cells, cell{p.String(), p, f})
		}
	}
	outcome := run(t, append(cells, sqliteCells...))
	var b strings.Builder
	fmt.Fprintf(&b, "%-34s %s\n", "state and class", "kill -9 at that instant")
	ingest.Table(func(s ingest.State, e ingest.Event, _ ingest.Step) {
		if e >= ingest.Configured {
			return
		}
		p := pair{s, ingest.Class(e)}
		if why := never[p] + hermeticOnly[p]; why != "" {
			fmt.Fprintf(&b, "%-34s - %s\n", p, why)
		} else {
			fmt.Fprintf(&b, "%-34s %s\n", p, cmp.Or(outcome[p.String()], "not run"))
		}
	})
	for _, c := range sqliteCells {
		fmt.Fprintf(&b, "%-34s %s\n", c.name, cmp.Or(outcome[c.name], "not run"))
	}
	t.Logf("%d records per cell:\n%s", records, b.String())
}
