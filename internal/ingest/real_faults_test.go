//go:build real

package ingest_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"trawl/internal/ingest"
)

// gateway stands before the search server. While it is ill it answers itself, in
// turn, with HTML; 504 means that the server has done what it was asked.
type gateway struct {
	answers []int
	limit   int // of a request's body; above it 413. 0: none

	ill   atomic.Bool
	given atomic.Int64
	all   chan struct{} // closed once each answer was given
	proxy *httputil.ReverseProxy
}

// before starts it and gives its URL.
func (g *gateway) before(t *testing.T, server string) string {
	to, err := url.Parse(server)
	must(t, err)
	g.proxy, g.all = httputil.NewSingleHostReverseProxy(to), make(chan struct{})
	s := httptest.NewServer(g)
	t.Cleanup(s.Close)
	return s.URL
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case g.limit > 0 && r.ContentLength > int64(g.limit):
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	case !g.ill.Load():
		g.proxy.ServeHTTP(w, r)
	default:
		n := int(g.given.Add(1))
		status := g.answers[(n-1)%len(g.answers)]
		if status == http.StatusGatewayTimeout {
			g.proxy.ServeHTTP(httptest.NewRecorder(), r)
		} else {
			_, _ = io.Copy(io.Discard, r.Body) // the client may be gone
		}
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(status)
		fmt.Fprintf(w, "<html>%d by the gateway</html>", status)
		if n == len(g.answers) {
			close(g.all)
		}
	}
}

// realFault is a cell that can be made on real servers, and how.
type realFault struct {
	how     string
	before  func(*reality) // before the topic is filled
	begin   func(*reality) // in the middle; nil: it is there from the start
	heal    func(*reality) // once the state has named the class
	gateway *gateway
	poison  string
	fate    ingest.Class
	absent  bool // the source's topic is not there
	fills   bool // before or heal fills the topic
	quiet   bool // nothing is retried
	loses   bool // records are gone before they are read
	again   bool // a range may be read twice
}

// notReal are the other cells that the table allows.
var notReal = map[pair]string{
	{ingest.Extract, ingest.PartitionNotFound}:   "Kafka takes no partition from a topic",
	{ingest.Transform, ingest.Uncategorised}:     "no transform of ours states it",
	{ingest.Transform, ingest.TopicNotFound}:     "of a redrive",
	{ingest.Transform, ingest.PartitionNotFound}: "of a redrive",
	{ingest.Transform, ingest.OffsetNotFound}:    "of a redrive",
	{ingest.Load, ingest.InvalidEvent}:           "of SQLite: a record names another index",
}

// realFaults hurt nobody else on the servers.
var realFaults = map[pair]realFault{
	{ingest.Configure, ingest.Uncategorised}: {
		how: "an ACL forbids to describe the topic", fills: true,
		before: func(r *reality) { r.fill(); r.deny(r.name, kmsg.ACLOperationDescribe) },
		heal:   func(r *reality) { r.allow(r.name) },
	},
	{ingest.Configure, ingest.TopicNotFound}: {
		how: "the topic is not there; then it is", fills: true, absent: true,
		heal: func(r *reality) { r.sourceTopic(); r.fill() },
	},
	{ingest.Configure, ingest.OffsetNotFound}: {how: "the loader begins without a position", quiet: true},
	{ingest.Configure, ingest.SinkFailed}: {
		how: "a gateway answers 502", gateway: &gateway{answers: []int{502}}, before: func(r *reality) { r.gateway.ill.Store(true) },
		heal: func(r *reality) { r.gateway.ill.Store(false) },
	},
	{ingest.Extract, ingest.Uncategorised}: {
		how: "an ACL forbids to read the topic", begin: func(r *reality) { r.deny(r.name, kmsg.ACLOperationRead) },
		heal: func(r *reality) { r.allow(r.name) },
	},
	{ingest.Extract, ingest.TopicNotFound}: {
		how: "the topic is deleted and made again", again: true,
		begin: func(r *reality) { must(r.t, r.feed.DeleteTopics(r.t.Context(), r.name)) },
		heal:  func(r *reality) { r.sourceTopic(); r.fill() },
	},
	{ingest.Extract, ingest.OffsetNotFound}: {
		how: "records are removed as retention does", loses: true, quiet: true, begin: func(r *reality) { r.forget(realRecords - 8) },
	},
	{ingest.Transform, ingest.MessageTooBig}: {
		how: "a record of 200 KB, 100 KB are allowed", poison: `{"n":1,"s":"` + strings.Repeat("x", 2*maxRealRecord) + `"}`, fate: ingest.MessageTooBig, quiet: true,
	},
	{ingest.Transform, ingest.InvalidFormat}: {how: "half a JSON object", poison: `{"n":`, fate: ingest.InvalidFormat, quiet: true},
	{ingest.Transform, ingest.InvalidEvent}:  {how: "a JSON array", poison: `[1]`, fate: ingest.InvalidEvent, quiet: true},
	{ingest.Transform, ingest.TransformFailed}: {
		how: "half of a text, in an expression", poison: `{"n":"no number"}`, fate: ingest.TransformFailed, quiet: true,
	},
	{ingest.Load, ingest.Uncategorised}: {
		how: "a gateway answers 200 and HTML", gateway: &gateway{answers: []int{200}}, begin: func(r *reality) { r.gateway.ill.Store(true) },
		heal: func(r *reality) { r.gateway.ill.Store(false) },
	},
	{ingest.Load, ingest.MessageTooBig}: {
		how: "a gateway takes 32 KB", gateway: &gateway{limit: 32 << 10}, fate: ingest.MessageTooBig, quiet: true,
		poison: `{"n":1,"s":"` + strings.Repeat("x", 40<<10) + `"}`,
	},
	{ingest.Load, ingest.SinkFailed}: {
		how:     "a gateway answers 500, 502, 503, and 504 when the write is done",
		gateway: &gateway{answers: []int{500, 502, 503, 504}}, begin: func(r *reality) { r.gateway.ill.Store(true) },
		heal: func(r *reality) { <-r.gateway.all; r.gateway.ill.Store(false) },
	},
	{ingest.Errors, ingest.Uncategorised}: {
		how: "an ACL forbids to write to the topic", begin: func(r *reality) { r.deny(r.errors(), kmsg.ACLOperationWrite) },
		heal: func(r *reality) { r.allow(r.errors()) },
	},
	{ingest.Configure, ingest.KafkaUnavailable}: {
		how: "connections are refused", before: func(r *reality) { r.sourceW.refused.Store(true) },
		heal: func(r *reality) { r.sourceW.refused.Store(false) },
	},
	{ingest.Configure, ingest.PartitionNotFound}: {
		how: "partition 1 of one; then there are two", fills: true, before: func(r *reality) { r.part = 1 },
		heal: func(r *reality) { r.morePartitions(r.name); r.morePartitions(r.errors()); r.fill() },
	},
	{ingest.Configure, ingest.Network}: {
		how: "connections break when offsets are asked for", before: func(r *reality) { r.sourceW.breaks(kmsg.ListOffsets) },
		heal: func(r *reality) { r.sourceW.key.Store(nil) },
	},
	{ingest.Configure, ingest.SinkUnavailable}: {
		how: "connections are refused", before: func(r *reality) { r.adminW.refused.Store(true) },
		heal: func(r *reality) { r.adminW.refused.Store(false) },
	},
	{ingest.Configure, ingest.SinkRefused}: {
		how:    "an alias has the index's name; then it is gone",
		before: func(r *reality) { r.alias("PUT") }, heal: func(r *reality) { r.alias("DELETE") },
	},
	{ingest.Extract, ingest.KafkaUnavailable}: {
		how: "connections break and are refused", begin: func(r *reality) { r.sourceW.refused.Store(true) },
		heal: func(r *reality) { r.sourceW.refused.Store(false) },
	},
	{ingest.Extract, ingest.Network}: {
		how: "connections break when records are asked for", begin: func(r *reality) { r.sourceW.breaks(kmsg.Fetch) },
		heal: func(r *reality) { r.sourceW.key.Store(nil) },
	},
	{ingest.Extract, ingest.MessageTooBig}: {
		how: "a record of 1.5 MB, the reader takes 1 MiB", poison: strings.Repeat("x", 3<<19), fate: ingest.MessageTooBig, quiet: true,
	},
	{ingest.Load, ingest.Network}: {
		how: "connections break", begin: func(r *reality) { r.adminW.cut.Store(true) },
		heal: func(r *reality) { r.adminW.cut.Store(false) },
	},
	{ingest.Load, ingest.SinkUnavailable}: {
		how: "connections break and are refused", begin: func(r *reality) { r.adminW.refused.Store(true) },
		heal: func(r *reality) { r.adminW.refused.Store(false) },
	},
	{ingest.Load, ingest.ItemsFailed}: {how: "a mapping conflict", poison: `{"n":1,"status":"a mapping conflict"}`, fate: ingest.ItemsFailed, quiet: true},
	{ingest.Load, ingest.SinkRefused}: {
		how: "index.blocks.read_only_allow_delete, as a full disk sets it", begin: func(r *reality) { r.block(true) },
		heal: func(r *reality) { r.block(false) },
	},
	{ingest.Errors, ingest.KafkaUnavailable}: {
		how: "connections break and are refused", begin: func(r *reality) { r.failedW.refused.Store(true) },
		heal: func(r *reality) { r.failedW.refused.Store(false) },
	},
	{ingest.Errors, ingest.TopicNotFound}: {
		how: "the topic is not there; then it is", before: func(*reality) {},
		heal: func(r *reality) { r.topic(r.errors(), nil) },
	},
	{ingest.Errors, ingest.PartitionNotFound}: {
		how: "partition 1 of one; then there are two", before: func(r *reality) { r.part = 1; r.morePartitions(r.name) },
		heal: func(r *reality) { r.morePartitions(r.errors()) },
	},
	{ingest.Errors, ingest.MessageTooBig}: {
		how: "max.message.bytes of 20,000, a failure of 50 KB", poison: strings.Repeat("bad", 17_000), fate: ingest.InvalidFormat, quiet: true,
	},
	{ingest.Errors, ingest.Network}: {
		how: "connections break when records are appended", begin: func(r *reality) { r.failedW.breaks(kmsg.Produce) },
		heal: func(r *reality) { r.failedW.key.Store(nil) },
	},
}

// TestRealFaults makes on real servers what can be made there: nothing is lost,
// nothing is twice, and the state names the class.
func TestRealFaults(t *testing.T) {
	all, impossible := cells()
	var b strings.Builder
	for _, c := range all {
		p := pair{c.state, c.class}
		f, made := realFaults[p]
		why := notReal[p]
		if made == (why != "") {
			t.Errorf("%s: a fault %t, a reason why there is none %q: it has to be exactly one", c, made, why)
		}
		if !made {
			fmt.Fprintf(&b, "%-34s - %s\n", c, why)
			continue
		}
		t.Run(strings.ReplaceAll(c.String(), "/", "-"), func(t *testing.T) { realCell(t, c, f) })
		fmt.Fprintf(&b, "%-34s %s\n", c, f.how)
	}
	for p := range realFaults {
		if why, ok := impossible[p]; ok {
			t.Errorf("%s x %s has a fault, and cannot happen: %s", p.state, p.class, why)
		}
	}
	t.Logf("on %s and %s:\n%s", os.Getenv("TRAWL_KAFKA_BROKERS"), os.Getenv("TRAWL_ELASTIC_URL"), b.String())
}

func realCell(t *testing.T, c cell, f realFault) {
	r := newReality(t, f.gateway)
	r.state, r.class, r.poison, r.gateway = c.state, c.class, f.poison, f.gateway
	r.begin, r.heal = func() {}, func() {}
	if f.begin != nil {
		r.begin = func() { f.begin(r) }
	}
	if f.heal != nil {
		r.heal = func() { f.heal(r) }
	}
	r.begun = f.begin == nil
	if !f.absent {
		r.sourceTopic()
	}
	switch {
	case c.state == ingest.Errors && c.class == ingest.TopicNotFound:
	case c.class == ingest.MessageTooBig:
		r.topic(r.errors(), map[string]string{"max.message.bytes": "20000"})
	default:
		r.topic(r.errors(), nil)
	}
	if f.before != nil {
		f.before(r)
	}
	if !f.fills {
		r.fill()
	}
	r.judge(r.run(realRecords), f)
	if !f.quiet && !r.named {
		t.Errorf("the state never said class %d in %s", c.class, c.state)
	}
}
