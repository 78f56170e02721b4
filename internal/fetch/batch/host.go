package batch

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"trawl/internal/contract"
	"trawl/internal/fetch"
	"trawl/internal/frontier"
	"trawl/internal/robots"
)

// Bounds of the waits that a failure leads to.
const (
	retryAfterMost = time.Hour // a Retry-After beyond it is cut
	// silentMost is for a host that gives no answer at all: to ask it once a
	// minute is no burden, and a crawl of it ends in minutes.
	silentMost   = time.Minute
	backoffFirst = 5 * time.Second
	backoffMost  = 5 * time.Minute // of a locator; of a host retryAfterMost
	maxResends   = 2               // per locator, when reused connections break
)

// A connection costs both sides as much as a small page, so a scheme of a host
// gets one for perConnection locators of a batch, and all that it may have once
// they last for widenAfter: waiting costs more than connections then.
const (
	perConnection = 4
	widenAfter    = time.Second
)

// host is the work for one politeness key: its gate, its streak, and the
// groups of locators by scheme, one after the other.
type host struct {
	x      *run
	key    string
	groups []*group
	pace   *pace
	par    int
	care   bool          // wait a delay before the first request
	wait   time.Duration // before the first request, since the slot still cools

	mu      sync.Mutex
	streak  int
	stopped bool      // blocked or parked in this batch
	blocked bool      // a block was counted in the streak
	until   time.Time // of the longest block that was stated
	part    int
}

// group is the part of a host with one scheme.
type group struct {
	contract.BatchHost
	mu      sync.Mutex
	next    int
	again   []int // items to ask again after a resend
	resends map[int]int
}

// pop gives the next item, or nil.
func (g *group) pop() (*contract.Item, int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n := len(g.again); n > 0 {
		i := g.again[n-1]
		g.again = g.again[:n-1]
		return &g.Items[i], i
	}
	if g.next >= len(g.Items) {
		return nil, 0
	}
	g.next++
	return &g.Items[g.next-1], g.next - 1
}

// putBack says whether item i may be asked once more.
func (g *group) putBack(i int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.resends == nil {
		g.resends = map[int]int{}
	}
	if g.resends[i] >= maxResends {
		return false
	}
	g.resends[i]++
	g.again = append(g.again, i)
	return true
}

// hosts runs all hosts of the batch, each at its own pace.
func (x *run) hosts() {
	x.used(x.job.Batch.Cool)
	byKey := map[string]*host{}
	var order []*host
	for _, b := range x.job.Batch.Hosts {
		h := byKey[b.Host]
		if h == nil {
			h = &host{x: x, key: b.Host, par: max(b.Parallelism, 1), streak: b.Streak, part: b.Part}
			h.pace = newPace(max(x.plan.delay, time.Duration(b.DelayMS)*time.Millisecond))
			byKey[b.Host] = h
			order = append(order, h)
		}
		h.par = min(h.par, max(b.Parallelism, 1))
		h.streak = max(h.streak, b.Streak)
		h.pace.widen(time.Duration(b.DelayMS) * time.Millisecond)
		h.care = h.care || b.Careful
		h.wait = max(h.wait, time.Duration(b.HoldMS)*time.Millisecond)
		h.groups = append(h.groups, &group{BatchHost: b})
	}
	x.paced = order
	done := newReleaser(x, order)
	var wg sync.WaitGroup
	for _, h := range order {
		if h.care {
			// The time box may end before the first request: then the slots cool
			// in its place, and the next batch has waited long enough.
			h.wait += h.pace.Delay()
			x.used(h.pace.Delay())
		}
		if h.wait > 0 {
			h.pace.hold(h.wait)
		}
		wg.Go(func() {
			h.run()
			done.ended(h)
		})
	}
	wg.Wait()
	done.stop()
}

func (h *host) run() {
	for _, g := range h.groups {
		if h.halted() {
			return
		}
		rules, ok := h.rules(g)
		if !ok {
			return
		}
		h.askAll(g, &rules)
	}
}

// askAll asks for all locators of a group, with few requests at once at first.
func (h *host) askAll(g *group, rules *robots.Rules) {
	var wg sync.WaitGroup
	defer wg.Wait()
	most := min(h.par, len(g.Items))
	few := min(most, (len(g.Items)+perConnection-1)/perConnection)
	var working atomic.Int64
	working.Store(int64(few))
	ended := make(chan struct{})
	for range few {
		wg.Go(func() {
			h.work(g, rules)
			if working.Add(-1) == 0 {
				close(ended)
			}
		})
	}
	if few == most {
		return
	}
	slow := time.NewTimer(widenAfter)
	defer slow.Stop()
	select {
	case <-ended:
	case <-slow.C:
		for range most - few {
			wg.Go(func() { h.work(g, rules) })
		}
	}
}

// work asks for one locator after the other.
func (h *host) work(g *group, rules *robots.Rules) {
	for !h.halted() {
		item, i := g.pop()
		if item == nil {
			return
		}
		url := g.Scheme + "://" + g.Host + item.Path
		if !rules.Allowed(item.Path) {
			h.refuse(url, item, "robots")
			continue
		}
		t := h.turn()
		if t == nil {
			return
		}
		if item.StateTry && !h.stateTry(url, item) {
			<-h.x.runner.slots
			t.give()
			return
		}
		res := h.request(t, &fetch.Request{
			URL: url, ETag: item.ETag, LastModified: item.LastModified,
			Want: func(status int, head http.Header) bool { return h.x.plan.wants(item.Path, status, head) },
		})
		if !res.Resend || !g.putBack(i) {
			h.settle(url, item, res)
		}
		res.Release()
	}
}

func (h *host) halted() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.stopped || h.x.soft.Err() != nil
}

// turn waits for everything that a request needs: the host's delay, room for
// its answer, a slot of the worker, and the gate. nil: none may start.
func (h *host) turn() *turn {
	x := h.x
	t := h.pace.take(x.soft)
	if t == nil {
		return nil
	}
	if h.halted() || !x.runner.net.pass(x.soft) || !x.out.ready(x.soft) {
		t.give()
		return nil
	}
	select {
	case x.runner.slots <- struct{}{}:
	case <-x.soft.Done():
		t.give()
		return nil
	}
	if h.halted() || !x.maySend() {
		<-x.runner.slots
		t.give()
		return nil
	}
	return t
}

// maySend asks the gate; a refusal ends the batch.
func (x *run) maySend() bool {
	if err := x.job.Gate.MaySend(); err != nil {
		x.fall()
		return false
	}
	return true
}

// request makes one request under a turn and gives turn and slot back.
func (h *host) request(t *turn, req *fetch.Request) *fetch.Result {
	x := h.x
	defer func() {
		t.over()
		<-x.runner.slots
	}()
	req.Gate = x.job.Gate.MaySend
	req.Sent = t.sent
	x.used(h.pace.Delay())
	x.sent.Add(1)
	return x.do(req)
}

// do makes the request; an answer shows that the network is there.
func (x *run) do(req *fetch.Request) *fetch.Result {
	res := x.plan.client.Do(x.requests, req)
	if res.Err == nil {
		x.runner.net.replied()
	}
	return res
}

// blames says whether a failure is the site's, not of our own network.
func (x *run) blames(class fetch.Class) bool {
	if class == fetch.ClassProtocol {
		x.runner.net.replied()
		return true
	}
	ctx, cancel := context.WithCancel(x.requests)
	defer cancel()
	defer context.AfterFunc(x.called, cancel)()
	if class != fetch.ClassDNS && class != fetch.ClassConnect {
		cancel() // it took its time already
	}
	return x.runner.net.blames(ctx)
}

// stateTry states the try before it is made, when its turn has come: the
// locator may kill the worker.
func (h *host) stateTry(url string, item *contract.Item) bool {
	x := h.x
	x.state(x.tried(url, item, "killed"))
	return x.out.flush(x.soft) == nil
}

func (x *run) tried(url string, item *contract.Item, class string) frontier.Tried {
	now := x.job.Now()
	return frontier.Tried{
		URL: url, Round: max(item.Round, 1), Number: item.Try + 1, Class: class, When: now,
		NextDue: now.Add(backoff(item.Try, backoffMost)),
	}
}

// refuse ends a locator without an answer.
func (h *host) refuse(url string, item *contract.Item, reason string) {
	h.x.state(frontier.Fetched{
		URL: url, Round: max(item.Round, 1), Refusal: reason, When: h.x.job.Now(), Depth: item.Depth,
	})
	h.x.count("refused:"+reason, true)
}

// settle turns an answer or a failure into records.
func (h *host) settle(url string, item *contract.Item, res *fetch.Result) {
	switch {
	case res.Err != nil && h.x.requests.Err() != nil, res.Class == fetch.ClassAborted:
		return // says nothing about the site: the locator stays due
	case res.Class == fetch.ClassAddress, res.Class == fetch.ClassURL:
		h.refuse(url, item, string(res.Class))
	case res.Err != nil && !h.x.blames(res.Class):
		return
	case res.Err != nil:
		h.fail(url, item, string(res.Class))
	case res.Status == http.StatusTooManyRequests, res.Status == http.StatusServiceUnavailable:
		reason := strconv.Itoa(res.Status)
		until := h.block(reason, res.Header)
		t := h.x.tried(url, item, reason)
		t.NextDue = until // behind the others; a locator that always blocks ends by its own limit
		h.x.state(t)
		h.x.count("blocked:"+reason, true)
	case res.Status >= 500:
		h.fail(url, item, "5xx")
	case res.Unwanted:
		h.succeed()
		h.refuse(url, item, "type")
	default:
		h.succeed()
		h.x.answered(url, item, res)
	}
}

// fail states a failed try.
func (h *host) fail(url string, item *contract.Item, class string) {
	h.x.state(h.x.tried(url, item, class))
	h.x.count("failed:"+class, true)
	h.strike(class)
}

// strike counts one more error in a row; at the limit the host is parked.
func (h *host) strike(why string) (streak int) {
	x := h.x
	h.mu.Lock()
	h.streak++
	streak = h.streak
	limit := x.plan.spec.Limits.HostErrors
	park := limit > 0 && streak >= limit && !h.stopped
	if park {
		h.stopped = true
	}
	h.mu.Unlock()
	x.out.put(func(p *parcel) {
		p.streaks[h.key] = h.errors()
		if park {
			p.addThen(record(frontier.Parked{Host: h.key, Reason: strconv.Itoa(streak) + " errors in a row, the last: " + why, When: x.job.Now()}))
		}
	})
	return streak
}

// succeed ends a streak; a host without one needs no fact.
func (h *host) succeed() {
	h.mu.Lock()
	reset := h.streak > 0
	h.streak = 0
	h.mu.Unlock()
	if reset {
		h.x.out.put(func(p *parcel) { p.streaks[h.key] = h.errors() })
	}
}

// errors is the streak now; goroutines that count may put in another order.
func (h *host) errors() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.streak
}

// block states, at once, that the host wants no requests for a while, and ends
// its part of the batch. It answers with the end of the longest block.
func (h *host) block(reason string, head http.Header) (until time.Time) {
	x := h.x
	h.mu.Lock()
	first := !h.blocked
	h.blocked = true
	h.mu.Unlock()
	streak := 1
	if first {
		streak = h.strike(reason)
	}
	wait, told := retryAfter(head, x.job.Now())
	if !told {
		most := retryAfterMost
		if head == nil {
			most = silentMost
		}
		wait = backoff(streak-1, most)
	}
	now := x.job.Now()
	h.mu.Lock()
	h.stopped = true
	longer := now.Add(wait).After(h.until)
	if longer {
		h.until = now.Add(wait)
	}
	h.mu.Unlock()
	if longer { // the last fact counts: a shorter wait must not replace a longer one
		x.out.put(func(p *parcel) {
			p.blocks[h.key] = frontier.Blocked{Host: h.key, Part: h.part, Until: h.blockedUntil(), Reason: reason, When: now}
		})
		x.out.wake()
	}
	return h.blockedUntil()
}

func (h *host) blockedUntil() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.until
}

// retryAfter reads seconds or a date; the site's own clock is used for a date.
func retryAfter(head http.Header, now time.Time) (time.Duration, bool) {
	v := strings.TrimSpace(head.Get("Retry-After"))
	if v == "" {
		return 0, false
	}
	if n, err := strconv.ParseUint(v, 10, 32); err == nil {
		return min(time.Duration(n)*time.Second, retryAfterMost), true
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0, false
	}
	if date, err := http.ParseTime(head.Get("Date")); err == nil {
		now = date
	}
	return min(max(at.Sub(now), time.Second), retryAfterMost), true
}

// backoff is exponential in the number of failures before, +-20 %.
func backoff(failures int, most time.Duration) time.Duration {
	d := min(backoffFirst<<min(failures, 20), most)
	return d - d/5 + time.Duration(rand.Int64N(int64(d*2/5)+1))
}
