package batch

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"trawl/internal/frontier"
	"trawl/internal/kafkalog"
	"trawl/internal/page"
)

// Bounds of what waits for an acknowledgement.
const (
	flushAfter = time.Second / 4 // since the first record of a parcel
	flushPages = 100             // pages of a parcel
	flushBytes = 4 << 20         // bytes of a parcel
	maxPages   = 200             // waiting in all: no request starts beyond
	maxBytes   = 8 << 20         // waiting in all
	maxUnacked = 5 * time.Second // a flush that takes longer stops requests
	retryFirst = 100 * time.Millisecond
	retryMost  = 5 * time.Second
	keepValue  = 512 << 10 // greatest buffer that is used again
)

// Appender makes records durable: AppendAll gives nil for a part only after all
// replicas in sync have it; after an error nothing is known, and the same records
// are appended again, unless it is kafkalog.ErrTooLarge. It may be called from
// several goroutines, and keeps nothing of the records after it returned.
type Appender interface {
	AppendAll(ctx context.Context, parts []kafkalog.Part) []error
}

// place is a partition of a topic.
type place struct {
	topic     string
	partition int
}

// parcel is what one flush makes durable: first, in any order, the pages and
// what they led to; after their acknowledgement the facts that end locators.
type parcel struct {
	first   map[place][]kafkalog.Record
	then    []kafkalog.Record
	streaks map[string]int
	blocks  map[string]frontier.Blocked
	marks   []mark
	paged   map[place]bool // places of pages
	values  [][]byte       // of pages
	pages   int
	bytes   int
}

func newParcel() *parcel {
	return &parcel{first: map[place][]kafkalog.Record{}, paged: map[place]bool{}, streaks: map[string]int{}, blocks: map[string]frontier.Blocked{}}
}

func (p *parcel) empty() bool {
	return len(p.first) == 0 && len(p.then) == 0 && len(p.streaks) == 0 && len(p.blocks) == 0
}

func size(r kafkalog.Record) int { return len(r.Key) + len(r.Value) }

// addFirst adds a page or a discovered fact.
func (p *parcel) addFirst(at place, r kafkalog.Record) {
	p.first[at] = append(p.first[at], r)
	p.bytes += size(r)
}

// addPage adds a page record; its value goes back to the pool when the parcel
// was acknowledged.
func (p *parcel) addPage(at place, r kafkalog.Record) {
	p.addFirst(at, r)
	p.paged[at] = true
	p.values = append(p.values, r.Value)
	p.pages++
}

// addThen adds a fact that must not be known before the rest of the parcel.
func (p *parcel) addThen(r kafkalog.Record) {
	p.then = append(p.then, r)
	p.bytes += size(r)
}

// outbox collects parcels and flushes them one after the other, while requests
// go on. One at a time keeps the order between parcels: a link that waits in
// an earlier parcel is acknowledged before any fact of a later one.
type outbox struct {
	log    Appender
	own    place // the shard's partition
	recent *recent
	finish func(p *parcel) // turns streaks and blocks into records

	mu       sync.Mutex
	cur      *parcel
	sending  *parcel // nil: none in flight
	since    time.Time
	begun    uint64 // number of the current parcel
	acked    uint64 // greatest number acknowledged
	unacked  map[uint64]int32
	changed  chan struct{} // closed at every acknowledgement, and at the end
	err      error
	kick     chan struct{}
	timer    *time.Timer // wakes the flush of a parcel that does not fill
	finished bool
	dropped  map[int]int64 // pages that the log refused for their size, by HTTP status
}

func newOutbox(log Appender, own place, r *recent, finish func(*parcel)) *outbox {
	o := &outbox{
		log: log, own: own, recent: r, finish: finish, begun: 1,
		cur: newParcel(), unacked: map[uint64]int32{}, changed: make(chan struct{}), kick: make(chan struct{}, 1),
		dropped: map[int]int64{},
	}
	o.timer = time.AfterFunc(flushAfter, o.wake)
	o.timer.Stop()
	return o
}

// put lets f add to the current parcel, all of it or, for the log, nothing.
func (o *outbox) put(f func(p *parcel)) {
	o.mu.Lock()
	fresh := o.cur.empty()
	f(o.cur)
	full := o.cur.pages >= flushPages || o.cur.bytes >= flushBytes
	if fresh && !o.cur.empty() {
		o.timer.Reset(flushAfter)
	}
	o.mu.Unlock()
	if full {
		o.wake()
	}
}

func (o *outbox) wake() {
	select {
	case o.kick <- struct{}{}:
	default:
	}
}

// flush waits until everything that was put before is acknowledged.
func (o *outbox) flush(ctx context.Context) error {
	o.mu.Lock()
	want := o.begun
	if o.cur.empty() {
		want--
	}
	o.mu.Unlock()
	o.wake()
	for {
		o.mu.Lock()
		acked, err, changed := o.acked, o.err, o.changed
		o.mu.Unlock()
		if acked >= want {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-changed:
			o.wake()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// ready waits until a request may start; false: ctx ended or the log failed.
func (o *outbox) ready(ctx context.Context) bool {
	for {
		o.mu.Lock()
		pages, bytes, late := o.cur.pages, o.cur.bytes, false
		if o.sending != nil {
			pages += o.sending.pages
			bytes += o.sending.bytes
			late = time.Since(o.since) >= maxUnacked
		}
		err, changed := o.err, o.changed
		o.mu.Unlock()
		if err != nil || ctx.Err() != nil {
			return false
		}
		if pages < maxPages && bytes < maxBytes && !late {
			return true
		}
		o.wake()
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// close makes the next flush the last; run then returns.
func (o *outbox) close() {
	o.mu.Lock()
	o.finished = true
	o.mu.Unlock()
	o.wake()
}

// run flushes until close, or until ctx ends with records left.
func (o *outbox) run(ctx context.Context) error {
	defer o.timer.Stop()
	for {
		select {
		case <-o.kick:
		case <-ctx.Done():
			return o.fail(context.Cause(ctx))
		}
		for {
			p, last := o.next()
			if p != nil {
				if err := o.send(ctx, p); err != nil {
					return o.fail(fmt.Errorf("flush not acknowledged: %w", err))
				}
				o.ack(p)
			}
			if last {
				return nil
			}
			if !o.closing() {
				break
			}
		}
	}
}

func (o *outbox) closing() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.finished
}

// next takes the current parcel, if it has anything.
func (o *outbox) next() (p *parcel, last bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cur.empty() {
		return nil, o.finished
	}
	p = o.cur
	o.finish(p)
	o.timer.Stop()
	o.cur, o.sending, o.since = newParcel(), p, time.Now()
	o.begun++
	return p, false
}

func (o *outbox) ack(p *parcel) {
	// The shared cache learns the links before unacked forgets them, so that
	// no link falls between the two.
	o.recent.add(p.marks)
	for _, v := range p.values {
		if cap(v) <= keepValue {
			values.Put(&v)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, m := range p.marks {
		if o.unacked[m.key] >= m.depth {
			delete(o.unacked, m.key)
		}
	}
	o.sending = nil
	o.acked = o.begun - 1
	close(o.changed)
	o.changed = make(chan struct{})
}

func (o *outbox) fail(err error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err = err
	close(o.changed)
	o.changed = make(chan struct{})
	return err
}

// fresh says that a link must be stated, and remembers that it is being
// stated. Only inside of put: the link is in the parcel or in an earlier one.
func (o *outbox) fresh(p *parcel, m mark) bool {
	if d, ok := o.unacked[m.key]; ok && d <= m.depth {
		return false
	}
	o.unacked[m.key] = m.depth
	p.marks = append(p.marks, m)
	return true
}

// send appends the first part everywhere, then the rest.
func (o *outbox) send(ctx context.Context, p *parcel) error {
	refused, err := o.sendFirst(ctx, p)
	if err != nil {
		return err
	}
	if len(refused) > 0 {
		o.refuse(p.then, refused)
	}
	if len(p.then) == 0 {
		return nil
	}
	return o.append(ctx, o.own, p.then)
}

// sendFirst appends the first part of a parcel, and what fails again until it
// succeeds or ctx ends. It answers with the URLs of pages that are too large.
func (o *outbox) sendFirst(ctx context.Context, p *parcel) (refused map[string]bool, err error) {
	parts := make([]kafkalog.Part, 0, len(p.first))
	for at, recs := range p.first {
		parts = append(parts, kafkalog.Part{Topic: at.topic, Partition: at.partition, Records: recs})
	}
	refused = map[string]bool{}
	for wait := retryFirst; len(parts) > 0; wait = min(2*wait, retryMost) {
		var again []kafkalog.Part
		var reasons []error
		for i, err := range o.log.AppendAll(ctx, parts) {
			at := place{parts[i].Topic, parts[i].Partition}
			switch {
			case err == nil:
			case !errors.Is(err, kafkalog.ErrTooLarge):
				again = append(again, parts[i])
				reasons = append(reasons, fmt.Errorf("%s/%d: %w", at.topic, at.partition, err))
			case p.paged[at]:
				urls, err := o.appendCut(ctx, at, parts[i].Records)
				if err != nil {
					return nil, err
				}
				for _, url := range urls {
					refused[url] = true
				}
			default:
				return nil, err
			}
		}
		if parts = again; len(parts) > 0 && !pause(ctx, wait) {
			return nil, errors.Join(reasons...)
		}
	}
	return refused, nil
}

// pause waits so long; false: ctx ended before.
func pause(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// append tries until it succeeds or ctx ends: copies are harmless, a loss is
// not.
func (o *outbox) append(ctx context.Context, at place, recs []kafkalog.Record) error {
	wait := retryFirst
	for {
		err := o.log.AppendAll(ctx, []kafkalog.Part{{Topic: at.topic, Partition: at.partition, Records: recs}})[0]
		if err == nil {
			return nil
		}
		if errors.Is(err, kafkalog.ErrTooLarge) {
			return err
		}
		if !pause(ctx, wait) {
			return fmt.Errorf("%s/%d: %w", at.topic, at.partition, err)
		}
		wait = min(2*wait, retryMost)
	}
}

// appendCut appends pages one by one, as one of them is too large for the
// topic: such a page loses its body, so that no page can fail its batch for
// ever. It answers with the URLs of those that are too large even so.
func (o *outbox) appendCut(ctx context.Context, at place, recs []kafkalog.Record) (refused []string, err error) {
	for i := range recs {
		err := o.append(ctx, at, recs[i:i+1])
		if errors.Is(err, kafkalog.ErrTooLarge) {
			if r, ok := withoutBody(recs[i]); ok {
				err = o.append(ctx, at, []kafkalog.Record{r})
			}
		}
		switch {
		case errors.Is(err, kafkalog.ErrTooLarge):
			refused = append(refused, string(recs[i].Key))
		case err != nil:
			return nil, err
		}
	}
	return refused, nil
}

// withoutBody is a page record that is cut to its metadata; size and digest
// stay those of the whole body.
func withoutBody(r kafkalog.Record) (kafkalog.Record, bool) {
	var p page.Page
	if err := page.Decode(r.Value, &p); err != nil {
		return r, false
	}
	p.Body, p.ContentEncoding, p.Cut = nil, "", true
	r.Value = p.Append(nil)
	return r, true
}

// refuse turns the answers of these locators into refusals: an answer must not
// be stated without its page.
func (o *outbox) refuse(then []kafkalog.Record, urls map[string]bool) {
	for i, r := range then {
		fact, err := frontier.Decode(r.Key, r.Value)
		if err != nil {
			continue
		}
		f, ok := fact.(frontier.Fetched)
		if !ok || !urls[f.URL] || f.Refusal != "" {
			continue
		}
		o.mu.Lock()
		o.dropped[f.Status]++
		o.mu.Unlock()
		f.Status, f.Refusal, f.ETag, f.LastModified, f.Digest, f.Bytes = 0, "too-large", "", "", 0, 0
		then[i] = record(f)
	}
}

// correct moves the outcomes of dropped pages to their refusal.
func (o *outbox) correct(outcomes map[string]int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for status, n := range o.dropped {
		key := strconv.Itoa(status)
		if outcomes[key] -= n; outcomes[key] <= 0 {
			delete(outcomes, key)
		}
		outcomes["refused:too-large"] += n
	}
}
