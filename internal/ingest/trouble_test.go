package ingest_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"trawl/internal/contract"
	"trawl/internal/ingest"
	"trawl/internal/kafkalog"
	"trawl/internal/sink"
	"trawl/internal/sink/elastic/estest"
)

// calm is a cell without a fault.
func calm() cell { return cell{state: ingest.Extract, class: -1} }

// An outage of an hour costs some fifty tries, and nothing else.
func TestAwayForAnHour(t *testing.T) {
	all, _ := cells()
	for _, c := range all {
		if c.class != ingest.KafkaUnavailable && c.class != ingest.SinkUnavailable && c.class != ingest.SinkRefused {
			continue
		}
		t.Run(c.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.lasts = time.Hour
				p := newPlant(t, c)
				began := time.Now()
				p.sound(p.stream(streamed))
				if took := time.Since(began); took < time.Hour || took > time.Hour+5*time.Minute {
					t.Errorf("done after %s", took)
				}
				if p.tries < 20 || p.tries > 120 {
					t.Errorf("%d tries in an hour", p.tries)
				}
			})
		})
	}
}

// What breaks the order errors -> sink -> position has to be noticed by the
// checks that the matrix rests on.
func TestBrokenOrderIsCaught(t *testing.T) {
	for name, dishonest := range map[string]func(*plant){
		"errors acknowledged early": func(p *plant) { p.errorLog = forgetful{} },
		"errors acknowledged late":  func(p *plant) { p.errorLog = &late{ErrorLog: p.errorLog} },
		"sink acknowledges early": func(p *plant) {
			p.writer = func(s sink.Sink) sink.Sink { return &dishonestSink{Sink: s, every: 3} }
		},
		"sink acknowledges some": func(p *plant) {
			p.writer = func(s sink.Sink) sink.Sink { return &dishonestSink{Sink: s, every: 1, part: true} }
		},
		"class of a failure": func(p *plant) {
			p.ops = func(r *kafkalog.Record) (sink.Op, bool, error) {
				op, ok, err := transform(r)
				if err != nil {
					err = &ingest.RecordError{Class: ingest.InvalidEvent, Err: err}
				}
				return op, ok, err
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPlant(t, calm())
				dishonest(p)
				if wrong := p.conserved(p.stream(streamed)); len(wrong) == 0 {
					t.Error("nobody noticed")
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) { // and the same checks have nothing to say about an honest one
		p := newPlant(t, calm())
		p.sound(p.stream(streamed))
	})
}

// forgetful acknowledges what it never writes.
type forgetful struct{}

func (forgetful) Append(context.Context, []kafkalog.Record) error { return nil }

// late writes what it was given when it is called the next time.
type late struct {
	ingest.ErrorLog

	owed []kafkalog.Record
}

func (l *late) Append(ctx context.Context, recs []kafkalog.Record) error {
	owed := l.owed
	l.owed = slices.Clone(recs)
	if len(owed) == 0 {
		return nil
	}
	return l.ErrorLog.Append(ctx, owed)
}

// dishonestSink acknowledges without writing: every n-th request, whole or but
// for its first document.
type dishonestSink struct {
	sink.Sink

	every, n int
	part     bool
}

func (d *dishonestSink) Write(ctx context.Context, ops []sink.Op) ([]sink.Result, error) {
	if d.n++; d.n%d.every > 0 {
		return d.Sink.Write(ctx, ops)
	}
	if d.part {
		if _, err := d.Sink.Write(ctx, ops[:1]); err != nil {
			return nil, err
		}
	}
	return make([]sink.Result, len(ops)), nil
}

// A topic that is deleted and made again begins at its first offset, if it is
// ours; the state says class 2 while it is away.
func TestTopicMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlant(t, cell{state: ingest.Extract, class: ingest.TopicNotFound})
		p.config = func(c *ingest.Config) { c.Policy = ingest.FromZero }
		for range 20 {
			p.put("good", 0, false)
		}
		p.until = 20
		p.sound(p.run())
		must(t, p.feed.DeleteTopics(t.Context(), srcTopic))
		p.began = time.Now() // the watch listens
		in := contract.LoadInput{Position: 20, TimeBox: 20 * time.Second, IdleWait: time.Second, Until: -1}
		r, err := p.loader().Slice(t.Context(), in)
		must(t, err)
		if r.Position != 20 || r.Retry.Class != int(ingest.TopicNotFound) || r.State != "extract" || r.Ledger.Offsets != 0 {
			t.Fatalf("without its topic: %+v", r)
		}
		must(t, p.feed.EnsureTopics(t.Context(), []kafkalog.TopicSpec{{Name: srcTopic, Partitions: 2}}))
		p.total, p.last, p.named, p.cell.class = 0, -1, false, ingest.OffsetNotFound
		for range 5 {
			p.put("good", 0, false)
		}
		in.Retry = r.Retry
		r, err = p.loader().Slice(t.Context(), in)
		must(t, err)
		if r.Start != 0 || r.Position != 5 || r.Ledger.Loaded != 5 || r.Retry.Attempts != 0 {
			t.Errorf("with its topic: %+v", r)
		}
	})
}

// A disk that is full (flood stage) refuses items, in the middle of a bulk or
// all of them; they wait, however long it takes, and none goes to the errors
// topic.
func TestFloodStage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlant(t, cell{state: ingest.Load, class: ingest.SinkRefused})
		bulks, full := 0, false
		p.es.Set(func(s *estest.Server) {
			s.Item = func(_, id string) (int, string) {
				if !full && strings.HasSuffix(id, "-6") { // in the middle of a bulk
					full = true
					p.mu.Lock()
					p.began = time.Now()
					p.mu.Unlock()
				}
				if full && time.Since(p.began) < 10*time.Minute {
					bulks++
					return http.StatusForbidden, "cluster_block_exception"
				}
				return 0, ""
			}
		})
		p.sound(p.stream(streamed))
		if !p.named || bulks < 10 {
			t.Errorf("named %t, %d items refused: %v", p.named, bulks, p.heard)
		}
	})
}

// A sink that needs a second per document, and ten minutes for the first, gets
// ever smaller bulks until one passes within the limits of a call; a slice never
// lasts longer than its time box and grace.
func TestSlowSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlant(t, cell{state: ingest.Load, class: ingest.Network})
		for range 200 {
			p.put("good", 0, false)
		}
		p.config = func(c *ingest.Config) { c.BatchCount = 100 }
		p.writer = func(s sink.Sink) sink.Sink { return slowSink{s} }
		p.until = 200
		in := contract.LoadInput{Position: -1, TimeBox: 30 * time.Second, IdleWait: time.Second, Until: p.until}
		most := 0
		for n := 0; in.Position < p.until; n++ {
			began := time.Now()
			r, err := p.loader().Slice(t.Context(), in)
			must(t, err)
			if d := time.Since(began); d > 95*time.Second {
				t.Fatalf("a slice of 30 s and a grace of 60 s lasted %s", d)
			}
			if n > 200 {
				t.Fatalf("no end at %d: %+v", in.Position, r)
			}
			most = max(most, r.Retry.Halved)
			in.Position, in.Retry = r.Position, r.Retry
			time.Sleep(max(time.Until(r.Retry.NextTry), 0)) // of the fake clock
		}
		if len(p.es.Docs(indexName)) != 200 || len(p.failures()) != 0 || len(p.broken) > 0 {
			t.Errorf("%d documents, %d failures, %v", len(p.es.Docs(indexName)), len(p.failures()), p.broken)
		}
		if most < 2 || most > 7 {
			t.Errorf("batches were halved %d times", most)
		}
	})
}

// slowSink takes a second per document, whatever the caller's patience.
type slowSink struct{ sink.Sink }

func (s slowSink) Write(ctx context.Context, ops []sink.Op) ([]sink.Result, error) {
	select {
	case <-time.After(time.Duration(len(ops)) * time.Second):
		return s.Sink.Write(ctx, ops)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A batch in hand that makes progress in small steps, but too slowly, is given
// up with its position before the activity's time-out, visibly.
func TestBatchInHandHasAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlant(t, calm())
		for range 60 {
			p.put("good", 0, false)
		}
		p.config = func(c *ingest.Config) { c.BatchCount = 60; c.Grace = 40 * time.Second }
		p.writer = func(s sink.Sink) sink.Sink { return steadySink{s} }
		p.until = 60
		in := contract.LoadInput{Position: -1, TimeBox: 30 * time.Second, Until: p.until}
		began := time.Now()
		r, err := p.loader().Slice(t.Context(), in)
		must(t, err)
		if d := time.Since(began); d > 75*time.Second || r.Position != 0 || r.State != "load" ||
			r.Retry.Halved != 1 || r.Retry.Class != int(ingest.Network) || !strings.Contains(r.Retry.Error, "offsets 0 to 59") {
			t.Errorf("after %s: %+v", d, r)
		}
		// The caller's own time counts, too.
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began = time.Now()
		if r, err = p.loader().Slice(ctx, in); err != nil || time.Since(began) > 48*time.Second || r.Position != 0 || r.Retry.Halved != 1 {
			t.Errorf("after %s: %+v, %v", time.Since(began), r, err)
		}
		p.sound(p.run())
	})
}

// steadySink takes one document per request, in two seconds.
type steadySink struct{ sink.Sink }

func (s steadySink) Write(ctx context.Context, ops []sink.Op) ([]sink.Result, error) {
	if len(ops) > 1 {
		return nil, &sink.RequestError{Status: http.StatusRequestEntityTooLarge}
	}
	time.Sleep(2 * time.Second) // of the fake clock
	return s.Sink.Write(ctx, ops)
}

// Batches grow again once the sink has recovered.
func TestBatchesGrowAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlant(t, calm())
		for range 300 {
			p.put("good", 0, false)
		}
		p.until = 300
		p.config = func(c *ingest.Config) { c.BatchCount = 16 }
		in := contract.LoadInput{Position: -1, TimeBox: 30 * time.Second, Until: p.until, Retry: contract.RetryState{Halved: 3}}
		r, err := p.loader().Slice(t.Context(), in)
		must(t, err)
		// 8 batches of 2, 8 of 4, 8 of 8, the rest of 16.
		if bulks := p.es.Bulks; r.Position != 300 || r.Retry != (contract.RetryState{}) || bulks < 30 || bulks > 45 {
			t.Errorf("%d bulks, %+v", bulks, r)
		}
	})
}

// Whole bulks that are busy for ever because they are too large get through in
// parts; one document that is busy for ever, while others pass, is a failure.
func TestBusyBulks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlant(t, calm())
		for range 64 {
			p.put("good", 0, false)
		}
		p.put("item", ingest.ItemsFailed, true)
		p.put("good", 0, false)
		p.until = 66
		p.config = func(c *ingest.Config) { c.BatchCount = 64 }
		p.es.Set(func(s *estest.Server) {
			s.Before = busyBulks
			s.Item = func(_, id string) (int, string) {
				if strings.HasSuffix(id, "-64") {
					return http.StatusTooManyRequests, "rejected_execution_exception"
				}
				return 0, ""
			}
		})
		p.sound(p.run())
		f := p.failures()[ingest.RecordID(srcTopic, partition, 64)]
		if f.Status != http.StatusTooManyRequests || f.Attempts < 2 {
			t.Errorf("failure %+v", f)
		}
	})
}

// busyBulks refuses every item of a bulk of more than ten.
func busyBulks(w http.ResponseWriter, r *http.Request) bool {
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	items := bytes.Count(body, []byte("\n")) / 2
	if err != nil || items <= 10 || !strings.HasSuffix(r.URL.Path, "_bulk") {
		return err != nil
	}
	busy := `{"index":{"status":429,"error":{"type":"rejected_execution_exception","reason":"queue is full"}}}`
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"took":1,"errors":true,"items":[%s]}`, strings.TrimSuffix(strings.Repeat(busy+",", items), ","))
	return true
}

// Fewer items than requests, and items of other requests, are no answer: class
// 0, and nothing of it is believed.
func TestShortAnswers(t *testing.T) {
	for name, answer := range map[string]string{
		"fewer items":  `{"took":1,"errors":false,"items":[{"index":{"status":201}}]}`,
		"no items":     `{"took":1,"errors":false}`,
		"other verbs":  `{"took":1,"errors":false,"items":[` + strings.TrimSuffix(strings.Repeat(`{"delete":{"status":200}},`, 4), ",") + `]}`,
		"cut JSON":     `{"took":1,"errors":false,"items":[{"ind`,
		"another type": `[]`,
		"null":         `null`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := cell{state: ingest.Load, class: ingest.Uncategorised, lasts: faultLasts, step: ingest.StepOf(ingest.Load, ingest.Event(ingest.Uncategorised))}
				c.fault.sink = says(200, "application/json", answer)
				p := newPlant(t, c)
				p.sound(p.stream(streamed))
				if !p.named {
					t.Errorf("the state never said class 0: %v", p.heard)
				}
			})
		})
	}
}

// A welcome page while the index is being prepared is not taken for an index.
func TestWelcomePageInConfigure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := cell{state: ingest.Configure, class: ingest.Uncategorised, lasts: faultLasts, step: ingest.StepOf(ingest.Configure, ingest.Event(ingest.Uncategorised))}
		c.fault.sink = says(200, "text/html", "<html>welcome</html>")
		p := newPlant(t, c)
		p.sound(p.stream(streamed))
		if !p.named {
			t.Errorf("the state never said class 0: %v", p.heard)
		}
	})
}

// Bad documents: each fails alone, with the class that the table says.
func TestBadDocuments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlant(t, calm())
		p.es.Set(func(s *estest.Server) { s.MaxContent = 0 })
		p.log = p.open(kafkalog.Config{Dial: p.dial, MaxBatchBytes: 48 << 20})
		p.ops = func(r *kafkalog.Record) (sink.Op, bool, error) {
			op := sink.Op{ID: ingest.RecordID(srcTopic, partition, r.Offset), Version: r.Offset, Doc: bytes.Clone(r.Value)}
			return op, true, nil
		}
		p.config = func(c *ingest.Config) { c.MaxRecord = 1 << 20; c.BatchCount = 50 }
		must(t, p.feed.SetConfig(t.Context(), srcTopic, "max.message.bytes", "33554432"))
		for value, class := range map[string]ingest.Class{
			`{"s":"` + strings.Repeat("x", 30_000_000) + `"}`:                         ingest.MessageTooBig,
			"{\"s\":\"\xff\xfe\"}":                                                    ingest.InvalidEvent,
			`{"a":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + `}`: ingest.InvalidEvent,
			`{"status":"a mapping conflict"}`:                                         ingest.ItemsFailed,
			"not JSON":                                                                ingest.InvalidEvent,
			"{}\n{\"delete\":{\"_id\":\"x\"}}":                                        ingest.InvalidEvent,
			"":                                                                        ingest.InvalidEvent,
		} {
			p.put(`{"good":1}`, 0, false)
			p.put(value, class, true)
		}
		p.until = p.total
		p.sound(p.run())
		for _, f := range p.failures() {
			if f.Pointer != (f.Class == ingest.MessageTooBig) || f.Reason == "" || f.Target != indexName {
				t.Errorf("failure %+v", f)
			}
		}
	})
}

// An index that is gone and must not be created fails items; the documents wait
// in the errors topic with the server's words.
func TestIndexMustNotBeCreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlant(t, calm())
		for i := range 10 {
			p.put([]string{"i", "good"}[i%2], ingest.ItemsFailed, i%2 == 0)
		}
		p.until = 10
		p.es.Set(func(s *estest.Server) {
			s.Item = func(_, id string) (int, string) {
				if n := id[len(id)-1]; n%2 == 0 {
					return http.StatusNotFound, "index_not_found_exception"
				}
				return 0, ""
			}
		})
		p.sound(p.run())
		for _, f := range p.failures() {
			if f.Type != "index_not_found_exception" || f.Status != http.StatusNotFound || f.State != "load" {
				t.Errorf("failure %+v", f)
			}
		}
	})
}
