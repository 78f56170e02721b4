package files_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"trawl/internal/sink"
	"trawl/internal/sink/files"
	"trawl/internal/sink/sinktest"
)

const childDir = "TRAWL_FILES_CHILD"

// TestMain is also the loader that TestKilledAtAnyTime kills.
func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := loader(dir); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// loader loads spans of random lengths and says how far it is.
func loader(dir string) error {
	ctx := context.Background()
	w, err := files.New(dir).OpenTarget(ctx, sink.Target{Name: "x"})
	if err != nil {
		return err
	}
	for at := int64(0); ; {
		kept, s, err := w.(sink.Spans).Begin(ctx, orders, at)
		if err != nil {
			return err
		}
		if s == nil {
			at = kept.To
			continue
		}
		to := at
		for range 1 + rand.IntN(3) {
			var ops []sink.Op
			for range 1 + rand.IntN(200) {
				ops = append(ops, sinktest.Op(fmt.Sprintf("orders-3-%d", to), to, "t", strings.Repeat("x", 500)))
				to++
			}
			if _, err := s.Write(ctx, ops); err != nil {
				return err
			}
		}
		won, err := s.Keep(ctx, to, []byte(note(at, to)))
		if err != nil {
			return err
		}
		if won {
			fmt.Println(to) // the position is answered
		}
	}
}

// TestKilledAtAnyTime: two loaders of one partition at once, killed again and
// again. What one has answered is kept, and every offset is there once.
func TestKilledAtAnyTime(t *testing.T) {
	dir := t.TempDir()
	must(t, files.New(dir).PrepareTarget(t.Context(), sink.Target{Name: "x"}))
	answered := int64(0)
	for round := range 6 {
		ends := make(chan int64, 2)
		cmds := make([]*exec.Cmd, 2)
		var once sync.Once
		kill := func() { // both, once one of them has got somewhere
			time.AfterFunc(time.Duration(round*40)*time.Millisecond, func() {
				for _, c := range cmds {
					_ = c.Process.Kill()
				}
			})
		}
		outs := make([]io.Reader, 2)
		for i := range cmds {
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), childDir+"="+dir)
			out, err := cmd.StdoutPipe()
			must(t, err)
			must(t, cmd.Start())
			cmds[i], outs[i] = cmd, out
		}
		for i, cmd := range cmds {
			go func() {
				last := int64(0)
				for in := bufio.NewScanner(outs[i]); in.Scan(); {
					once.Do(kill)
					n, err := strconv.ParseInt(in.Text(), 10, 64)
					if err != nil {
						t.Error(in.Text())
					}
					last = n
				}
				_ = cmd.Wait() // it was killed
				ends <- last
			}()
		}
		answered = max(answered, <-ends, <-ends)
	}
	if answered == 0 {
		t.Fatal("no loader got anywhere")
	}
	w := process(t, dir)
	at := int64(0)
	for {
		kept, s, err := w.Begin(t.Context(), orders, at)
		must(t, err)
		if s != nil {
			break
		}
		if kept.From != at {
			t.Fatalf("offset %d is kept with %d to %d", at, kept.From, kept.To)
		}
		at = kept.To
	}
	if at < answered {
		t.Errorf("offsets up to %d were answered, %d are kept", answered, at)
	}
	t.Logf("%d offsets, %d files", at, len(names(t, dir)))
	sound(t, dir, at)
}
