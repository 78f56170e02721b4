package batch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"trawl/internal/frontier"
	"trawl/internal/kafkalog"
	"trawl/internal/page"
)

// outboxOver runs an outbox over l inside a synctest bubble.
func outboxOver(t *testing.T, l *fakeLog) (*outbox, func() error) {
	t.Helper()
	o := newOutbox(l, place{"t.frontier", 0}, newRecent(100), func(*parcel) {})
	var wg sync.WaitGroup
	var err error
	wg.Go(func() { err = o.run(context.Background()) })
	return o, func() error { o.close(); wg.Wait(); return err }
}

func putPages(o *outbox, from, n int) {
	for i := range n {
		url := fmt.Sprintf("http://h.test/%d", from+i)
		o.put(func(p *parcel) {
			p.addPage(place{"t.pages", 0}, kafkalog.Record{Key: []byte(url), Value: (&page.Page{URL: url, Status: 200}).Append(nil)})
			p.addThen(record(frontier.Fetched{URL: url, Round: 1, Status: 200, When: time.Now()}))
		})
	}
}

// startable asks without patience.
func startable(o *outbox) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	return o.ready(ctx)
}

func TestFlushTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t)
		o, stop := outboxOver(t, l)
		putPages(o, 0, flushPages-1)
		time.Sleep(flushAfter - time.Millisecond)
		if l.count() != 0 {
			t.Error("a small parcel was flushed early")
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if l.count() != 2 {
			t.Errorf("%d appends a second after the first record, want 2", l.count())
		}
		putPages(o, 1000, flushPages)
		synctest.Wait()
		if l.count() != 4 {
			t.Errorf("%d appends after %d pages, want 4", l.count(), flushPages)
		}
		putPages(o, 2000, 1)
		if err := stop(); err != nil || l.count() != 6 {
			t.Errorf("the end flushes: %v, %d appends", err, l.count())
		}
	})
}

func TestBackpressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t)
		release := make(chan struct{})
		l.before = func(int) { <-release }
		o, stop := outboxOver(t, l)
		putPages(o, 0, maxPages-1)
		synctest.Wait()
		if !startable(o) {
			t.Error("no request may start although fewer than 200 pages wait")
		}
		putPages(o, 1000, 1)
		if startable(o) {
			t.Error("a request may start while 200 pages wait")
		}
		close(release)
		synctest.Wait()
		if !startable(o) {
			t.Error("no request may start after the acknowledgement")
		}
		again := make(chan struct{})
		l.before = func(int) { <-again }
		l.discard = true
		o.put(func(p *parcel) { p.addThen(kafkalog.Record{Key: []byte("x")}); p.bytes += maxBytes })
		if startable(o) {
			t.Error("a request may start while 8 MiB wait")
		}
		close(again)
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestLateFlushStopsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t)
		release := make(chan struct{})
		l.before = func(int) { <-release }
		o, stop := outboxOver(t, l)
		putPages(o, 0, flushPages)
		time.Sleep(maxUnacked - 10*time.Millisecond)
		if !startable(o) {
			t.Error("no request may start before five seconds")
		}
		time.Sleep(10 * time.Millisecond)
		if startable(o) {
			t.Error("a request may start five seconds into a flush")
		}
		waited := make(chan bool)
		go func() { waited <- o.ready(context.Background()) }()
		synctest.Wait()
		close(release)
		if !<-waited {
			t.Error("the acknowledgement did not let requests start")
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// flush returns only when all that was put before it is acknowledged.
func TestFlushWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t)
		l.loseAt = map[int]bool{1: true, 2: true, 4: true}
		o, stop := outboxOver(t, l)
		for i := range 5 {
			putPages(o, i, 1)
			if err := o.flush(context.Background()); err != nil {
				t.Fatal(err)
			}
			if n := len(facts[frontier.Fetched](l)); n != i+1 {
				t.Errorf("%d facts acknowledged after flush %d", n, i)
			}
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestPace: however long dials and answers take, and however many ask, two
// requests are on their connections at least a delay apart.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(1, 2))
		const delay = time.Second
		p := newPace(delay)
		p.hold(delay)
		start := time.Now()
		var mu sync.Mutex
		var sent []time.Time
		random := func(n int) time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return time.Duration(rnd.IntN(n)) * time.Millisecond
		}
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				for range 40 {
					turn := p.take(context.Background())
					time.Sleep(random(3000)) // the dial
					mu.Lock()
					sent = append(sent, time.Now())
					mu.Unlock()
					turn.sent()
					time.Sleep(random(5000)) // the answer
					turn.over()
				}
			})
		}
		wg.Wait()
		last := start
		for i, at := range sent {
			if at.Sub(last) < delay {
				t.Errorf("request %d %v after the one before", i, at.Sub(last))
			}
			last = at
		}
		if len(sent) != 200 {
			t.Errorf("%d requests", len(sent))
		}
		ctx, cancel := context.WithCancel(context.Background())
		first := p.take(ctx)
		cancel()
		if p.take(ctx) != nil {
			t.Error("a turn after the end")
		}
		first.give()
		if p.take(context.Background()) == nil {
			t.Error("the turn was lost")
		}
	})
}

// A page that the log refuses for ever must not be stated as fetched, nor fail
// the batch, in which it would be again.
func TestTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t)
		l.refuse = "t.pages"
		o, stop := outboxOver(t, l)
		putPages(o, 0, 2)
		if err := stop(); err != nil {
			t.Errorf("error %v", err)
		}
		f := facts[frontier.Fetched](l)
		if len(f) != 2 || f[0].Status != 0 || f[0].Refusal != "too-large" {
			t.Errorf("stated %+v", f)
		}
		outcomes := map[string]int64{"200": 3}
		if o.correct(outcomes); outcomes["200"] != 1 || outcomes["refused:too-large"] != 2 {
			t.Errorf("outcomes %v", outcomes)
		}
	})
}

// A fact that the log refuses for ever fails the batch.
func TestFactTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t)
		l.refuse = "t.frontier"
		o, stop := outboxOver(t, l)
		putPages(o, 0, 1)
		if err := stop(); !errors.Is(err, kafkalog.ErrTooLarge) {
			t.Errorf("error %v", err)
		}
		if startable(o) {
			t.Error("a request may start although the log failed")
		}
	})
}

// A link that another batch of this worker has not yet had acknowledged is
// stated again: that batch may die with it.
func TestRecentOnlyAfterAcknowledgement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t)
		release := make(chan struct{})
		l.before = func(int) { <-release }
		o, stop := outboxOver(t, l)
		m := mark{key: 7, depth: 3}
		o.put(func(p *parcel) {
			if !o.fresh(p, m) || o.fresh(p, m) || o.fresh(p, mark{7, 4}) || !o.fresh(p, mark{7, 2}) {
				t.Error("a link is stated once per depth that is less")
			}
			p.addThen(record(frontier.Streak{Host: "h.test", When: time.Now()}))
		})
		o.wake()
		synctest.Wait()
		if o.recent.has(7, 3) {
			t.Error("known before the acknowledgement")
		}
		close(release)
		synctest.Wait()
		if !o.recent.has(7, 3) || !o.recent.has(7, 2) || o.recent.has(7, 1) || len(o.unacked) != 0 {
			t.Error("not known after the acknowledgement")
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestRecentIsBounded(t *testing.T) {
	r := newRecent(100)
	for i := range 10_000 {
		r.add([]mark{{uint64(i), 1}})
	}
	if n := len(r.now) + len(r.old); n > 100 || !r.has(9_999, 1) || !r.has(9_960, 1) || r.has(1, 1) {
		t.Errorf("%d links remembered", n)
	}
}
