package ingest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"trawl/internal/contract"
	"trawl/internal/sink"
)

// keeping is the part of a slice that has to do with a sink of spans: there the
// documents of all batches of a slice last only once the slice has ended and its
// span is kept. So the slice can fall back: to where its span began. Whatever is
// kept already is passed over with the ledger that it was kept with.
type keeping struct {
	span     sink.Span // nil: the sink has none, or none is begun
	position int64     // where it began
	ledger   contract.Ledger
	moved    string // why the slice begins elsewhere than at its position
}

// spans gives the sink of spans; nil: every write lasts. A redrive states what
// became of each batch at once, so its writes have to last.
func (s *slice) spans() sink.Spans {
	if s.m.cfg.Restate != nil {
		return nil
	}
	spans, _ := s.to.(sink.Spans)
	return spans
}

// begin passes over what is kept, and begins a span after it.
func (s *slice) begin() error {
	spans := s.spans()
	if spans == nil || s.kept.span != nil {
		return nil
	}
	from := sink.Partition{Reader: s.m.cfg.Crawl, Topic: s.m.cfg.Topic, Partition: s.m.cfg.Partition}
	for {
		ctx, cancel := context.WithTimeout(s.work, s.m.cfg.CallLimit)
		var kept sink.Kept
		var span sink.Span
		err := guard(func() (err error) {
			kept, span, err = spans.Begin(ctx, from, s.position)
			return err
		})
		cancel()
		if err != nil {
			return err
		}
		if span != nil {
			s.kept.span, s.kept.position, s.kept.ledger = span, s.position, s.ledger
			return nil
		}
		if err := s.passOver(kept); err != nil {
			return err
		}
		if !time.Now().Before(s.deadline) || s.ctx.Err() != nil || s.in.Until >= 0 && s.position >= s.in.Until {
			s.over = true
			return nil
		}
	}
}

// passOver takes the position and the ledger of what somebody has kept: another
// try of this slice, or a loader before a seek. In its middle nobody knows the
// counts, so it is passed over from its beginning.
func (s *slice) passOver(kept sink.Kept) error {
	var l contract.Ledger
	if err := json.Unmarshal(kept.Note, &l); err != nil || l.Offsets != kept.To-kept.From || l.Missing() != 0 || kept.To <= s.position {
		return &sink.RequestError{
			Status: http.StatusConflict, Type: "unknown_span",
			Reason: fmt.Sprintf("what is kept of offsets %d to %d says nothing usable about them (%s): move it away, and they are loaded again", kept.From, kept.To-1, kept.Note),
		}
	}
	if kept.From != s.position {
		s.kept.moved = fmt.Sprintf("offset %d is kept already, with %d to %d: it goes on at %d", s.position, kept.From, kept.To-1, kept.To)
		s.start, s.ledger = kept.From, contract.Ledger{}
	}
	s.position, s.ledger = kept.To, s.ledger.Add(l)
	s.tell()
	return nil
}

// until is where the slice ends: as asked, or where the next kept span begins.
func (s *slice) until() int64 {
	if s.kept.span == nil {
		return s.in.Until
	}
	limit := s.kept.span.Limit()
	if s.in.Until < 0 || limit >= 0 && limit < s.in.Until {
		return limit
	}
	return s.in.Until
}

// within is an offset, or where the slice ends if that is before it: nothing goes
// beyond what is kept already.
func (s *slice) within(offset int64) int64 {
	if until := s.until(); until >= 0 {
		return min(offset, until)
	}
	return offset
}

// pending: the span has something.
func (s *slice) pending() bool { return s.kept.span != nil && s.position > s.kept.position }

// full: the span should be kept.
func (s *slice) full() bool { return s.kept.span != nil && s.kept.span.Full() }

// keep ends the slice: errors were stated before, now the sink keeps the
// documents, then the position is the answer. If another one was first its end
// is the end of this slice, too. It is not cancelled: its caller waits for it.
func (s *slice) keep() {
	s.giveUp()
	if !s.pending() {
		s.discard()
		return
	}
	won, err := s.kept.keep(s.ctx, s.position, s.ledger, s.m.cfg.CallLimit)
	if won && err == nil {
		s.kept.span = nil
		return
	}
	s.position, s.ledger = s.kept.position, s.kept.ledger
	s.discard()
	if err == nil && s.ctx.Err() == nil {
		err = s.begin()
		s.discard()
	}
	if err == nil || s.ctx.Err() != nil {
		return
	}
	if s.retry.Attempts == 0 && s.in.Retry.State == Load.String() {
		s.retry = s.in.Retry // what passed in between was not kept: it is the same trouble
	}
	s.state = Load
	class, why := Classify(Load, err)
	s.note(class, fmt.Sprintf("%s (%s)", err, why))
	s.retry.NextTry = s.m.cfg.Now().Add(backoff(s.retry.Attempts, 0))
	s.tell()
}

func (k *keeping) keep(ctx context.Context, to int64, ledger contract.Ledger, limit time.Duration) (won bool, err error) {
	note, err := json.Marshal(ledger.Sub(k.ledger))
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	err = guard(func() (err error) {
		won, err = k.span.Keep(ctx, to, note)
		return err
	})
	return won, err
}

// giveUp forgets a batch in hand, and what a span has of it: its offsets come
// again.
func (s *slice) giveUp() {
	s.batch = nil
	if s.kept.span != nil {
		s.kept.span.Undo()
	}
}

// discard forgets a span that was not kept.
func (s *slice) discard() {
	if s.kept.span != nil {
		s.kept.span.Discard()
		s.kept.span = nil
	}
}

// renew sets aside what is kept of a log that was longer.
func (s *slice) renew(end int64) error {
	spans := s.spans()
	if spans == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.work, s.m.cfg.CallLimit)
	defer cancel()
	return guard(func() error {
		return spans.Renew(ctx, sink.Partition{Reader: s.m.cfg.Crawl, Topic: s.m.cfg.Topic, Partition: s.m.cfg.Partition}, end)
	})
}
