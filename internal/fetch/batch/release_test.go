package batch

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"trawl/internal/contract"
	"trawl/internal/frontier"
)

// A host that is done is given back while another one still waits for an
// answer: its facts are acknowledged by then, and what it has to cool is said.
func TestHostsThatAreDoneAreReleased(t *testing.T) {
	released := make(chan contract.Released, 4)
	slow := newSite(t, func(w http.ResponseWriter, _ *http.Request) {
		<-released
		serveHTML(w, "at last")
	})
	quick := newSite(t, func(w http.ResponseWriter, _ *http.Request) { serveHTML(w, "x") })
	u := newSetup(t, quick, "/1", "/2")
	u.host().DelayMS = 20
	u.job.Batch.Hosts = append(u.job.Batch.Hosts, contract.BatchHost{
		Scheme: "http", Host: slow.host, Parallelism: 1, RobotsAt: -1, Items: []contract.Item{{Path: "/", Round: 1}},
	})
	u.job.Batch.Slots = []int{frontier.SlotOf(quick.host), frontier.SlotOf(slow.host)}
	slices.Sort(u.job.Batch.Slots)
	u.job.Batch.Number = 7
	var got []contract.Released
	var stated []string
	u.job.Release = func(_ context.Context, r contract.Released) error {
		got = append(got, r)
		for _, f := range facts[frontier.Fetched](u.log) {
			stated = append(stated, f.URL)
		}
		close(released)
		return nil
	}
	res := u.run(t.Context())
	if res.Outcomes["200"] != 3 || res.LeftOver != 0 {
		t.Errorf("%+v", res)
	}
	if len(got) != 1 || got[0].Number != 7 || got[0].Locators != 2 || !slices.Equal(got[0].Slots, []int{frontier.SlotOf(quick.host)}) || got[0].Cool > 20*time.Millisecond {
		t.Errorf("released %+v", got)
	}
	slices.Sort(stated)
	if want := []string{quick.URL + "/1", quick.URL + "/2"}; !slices.Equal(stated, want) {
		t.Errorf("acknowledged before the release: %v, want %v", stated, want)
	}
}

// A slot that was careful is owed the longest delay of any of its hosts, in the
// batch or not, also when it is given back early: the mark went with the batch.
func TestReleasedSlotsCoolForHostsThatAreNotInTheBatch(t *testing.T) {
	u := newSetup(t, newSite(t, nil))
	x := &run{runner: NewRunner(u.log, Options{}), job: u.job, requests: t.Context(), called: t.Context()}
	x.out = newOutbox(u.log, place{"t.frontier", 0}, x.runner.recent, x.finishParcel)
	x.job.Batch.Cool = 40 * time.Second
	x.job.Batch.Slots = []int{frontier.SlotOf("a.example"), frontier.SlotOf("b.example")}
	var got []contract.Released
	x.job.Release = func(_ context.Context, out contract.Released) error {
		got = append(got, out)
		return nil
	}
	hosts := []*host{{x: x, key: "a.example", pace: newPace(0)}, {x: x, key: "b.example", pace: newPace(0)}}
	r := newReleaser(x, hosts)
	defer r.stop()
	r.ended(hosts[0])
	r.release()
	if len(got) != 1 || got[0].Cool != 40*time.Second {
		t.Errorf("released %+v, want a cooling of 40 s", got)
	}
}

// Nothing is given back that is not wholly done: a slot whose other host still
// waits, parts of a split host; nor by a batch that drains.
func TestSlotsThatAreNotReleased(t *testing.T) {
	done := func(r *releaser) []contract.Released {
		var got []contract.Released
		r.x.job.Release = func(_ context.Context, out contract.Released) error {
			got = append(got, out)
			return nil
		}
		r.release()
		return got
	}
	const a = "a.example"
	var beside string
	for i := 0; beside == ""; i++ {
		if name := fmt.Sprintf("%d.example", i); frontier.SlotOf(name) == frontier.SlotOf(a) {
			beside = name
		}
	}
	for _, c := range []struct {
		name    string
		hosts   []string // the first one ends
		part    int
		drained bool
		want    int
	}{
		{"one of two", []string{a, "b.example"}, 0, false, 1},
		{"the slot's other host runs", []string{a, beside, "b.example"}, 0, false, 0},
		{"a part", []string{a, "b.example"}, 3, false, 0},
		{"draining", []string{a, "b.example"}, 0, true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.drained {
				cancel()
			}
			u := newSetup(t, newSite(t, nil))
			x := &run{runner: NewRunner(u.log, Options{}), job: u.job, requests: t.Context(), called: ctx}
			x.out = newOutbox(u.log, place{"t.frontier", 0}, x.runner.recent, x.finishParcel)
			var hosts []*host
			for _, name := range c.hosts {
				hosts = append(hosts, &host{x: x, key: name, part: c.part, pace: newPace(0)})
				x.job.Batch.Slots = append(x.job.Batch.Slots, frontier.SlotOf(name))
			}
			r := newReleaser(x, hosts)
			defer r.stop()
			r.ended(hosts[0])
			if got := done(r); len(got) != c.want {
				t.Errorf("released %+v, want %d", got, c.want)
			}
		})
	}
}
