package kafkalog_test

import (
	"context"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"trawl/internal/kafkalog"
	"trawl/internal/kafkalog/logtest"
)

// deposed is a cluster of two brokers whose partition 0 moved from broker 0 to
// broker 1 after f.log had asked for its end. Broker 0 does not know: it answers
// with the end of then, without any error. Records came since.
type deposed struct {
	*faulty
	old, now int64

	mu    sync.Mutex
	asked [2]int                                         // for an end, by broker
	next  func(r *kmsg.ListOffsetsRequest) kmsg.Response // of broker 1; nil: the truth
}

func depose(t *testing.T) *deposed {
	t.Helper()
	f, _ := startMany(t, 1)
	d := &deposed{faulty: f}
	other := logtest.Open(t, f.ListenAddrs())
	kafkalog.Hasten(other)
	fill := func(n int) {
		t.Helper()
		if _, err := other.Append(t.Context(), f.topic, 0, logtest.Numbered(0, n, 10)); err != nil {
			t.Fatal(err)
		}
	}
	fill(3)
	end, err := f.log.End(t.Context(), f.topic, 0)
	if err != nil || end != 3 {
		t.Fatalf("end %d, %v", end, err)
	}
	d.old, d.now = 3, 7
	f.ControlKey(kmsg.ListOffsets.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		f.KeepControl()
		res := d.offsets(f.CurrentNode(), req.(*kmsg.ListOffsetsRequest))
		return res, nil, res != nil
	})
	f.move(t, 0, 1)
	fill(4)
	return d
}

// offsets is the answer of a broker; nil leaves it to the cluster.
func (d *deposed) offsets(node int32, req *kmsg.ListOffsetsRequest) kmsg.Response {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked[node]++
	if node == 0 {
		return ends(req, d.old)
	}
	if d.next == nil {
		return nil
	}
	return d.next(req)
}

// count is how often each broker was asked.
func (d *deposed) count() [2]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked
}

// notLeader answers as a broker that does not lead what it is asked for.
func notLeader(r *kmsg.ListOffsetsRequest) kmsg.Response {
	res, _ := logtest.OffsetsCode(6)(r)
	return res
}

// ends answers with the same end for every partition that is asked for.
func ends(req *kmsg.ListOffsetsRequest, end int64) kmsg.Response {
	answer, _ := logtest.OffsetsCode(0)(req)
	res := answer.(*kmsg.ListOffsetsResponse)
	for i := range res.Topics {
		for j := range res.Topics[i].Partitions {
			res.Topics[i].Partitions[j].Offset = end
		}
	}
	return res
}

// check wants the end of now from whatever asks for ends.
func (d *deposed) check(t *testing.T) {
	t.Helper()
	for name, ask := range map[string]func(context.Context) (int64, error){
		"End": func(ctx context.Context) (int64, error) { return d.log.End(ctx, d.topic, 0) },
		"Ends": func(ctx context.Context) (int64, error) {
			all, err := d.log.Ends(ctx, d.topic, 1)
			if err != nil {
				return -1, err
			}
			return all[0], nil
		},
		"Bounds": func(ctx context.Context) (int64, error) {
			_, end, err := d.log.Bounds(ctx, d.topic, 0)
			return end, err
		},
	} {
		if end, err := ask(t.Context()); err != nil || end != d.now {
			t.Errorf("%s: %d, %v; want %d, the end that a deposed leader knows is %d", name, end, err, d.now, d.old)
		}
	}
}

// TestEndIsNotThatOfADeposedLeader: the client has cached that broker 0 leads, and
// has a connection to it, which would answer.
func TestEndIsNotThatOfADeposedLeader(t *testing.T) {
	d := depose(t)
	d.check(t)
	if n := d.count(); n[0] > 0 {
		t.Errorf("the deposed leader was asked %d times", n[0])
	}
}

// TestEndWaitsForTheNewLeader: while it does not know yet that it leads, nobody
// else is asked in its place.
func TestEndWaitsForTheNewLeader(t *testing.T) {
	d := depose(t)
	left := 3
	d.next = func(r *kmsg.ListOffsetsRequest) kmsg.Response {
		if left--; left < 0 {
			return nil
		}
		return notLeader(r)
	}
	d.check(t)
	if n := d.count(); n[0] > 0 || n[1] <= 3 {
		t.Errorf("brokers were asked %v times", n)
	}
}

// TestEndOfALeaderThatNeverAnswersIsAnError, never the end that a deposed one has.
func TestEndOfALeaderThatNeverAnswersIsAnError(t *testing.T) {
	d := depose(t)
	d.next = notLeader
	if end, err := d.log.End(t.Context(), d.topic, 0); err == nil || end >= 0 {
		t.Errorf("end %d, %v", end, err)
	}
	if n := d.count(); n[0] > 0 || n[1] == 0 {
		t.Errorf("brokers were asked %v times", n)
	}
}
