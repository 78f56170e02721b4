package loader

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"trawl/internal/ingest"
	"trawl/internal/kafkalog/logtest"
)

// fault that a worker meets, and at whose instant it is killed.
type fault struct {
	// kafka is what the broker answers; key that of the request that begins it.
	kafka func(*plant) logtest.Fault
	// sink answers a bulk or, in state configure, any other request.
	sink http.HandlerFunc
	// shut closes a port from the first hit on: connections are refused.
	shut func(*plant) *gate
	// poison is a record that fails, in place of the bad ones; fate its class, if
	// that is not the cell's. The worker is killed when it states the failure.
	poison string
	fate   ingest.Class
	// last is a request that the broker takes, and of which the worker does not
	// live to hear.
	last func(kmsg.Request) bool
	// sqlite: documents go to SQLite. What it does to the file lasts until the
	// worker is dead.
	sqlite func(*plant) (undo func())
	// named: nobody sees the fault but the worker, so that it is killed when its
	// state says so. A port that is shut is such a fault.
	named bool

	short bool // in the short form, too
}

func always(f logtest.Fault) func(*plant) logtest.Fault {
	return func(*plant) logtest.Fault { return f }
}

func gone(key kmsg.Key, topic func(*plant) string, whole bool) func(*plant) logtest.Fault {
	return func(p *plant) logtest.Fault { return logtest.Gone(key, topic(p), p.kafkaGate.address, whole) }
}

func source(*plant) string     { return sourceTopic }
func failed(p *plant) string   { return p.errorsTopic() }
func kafkaGate(p *plant) *gate { return p.kafkaGate }
func sinkGate(p *plant) *gate  { return p.sinkGate }

var (
	noBackend = answer(http.StatusServiceUnavailable, "text/html", "<html>no backend</html>")
	welcome   = answer(http.StatusOK, "text/html", "<html>welcome</html>")
)

// faults has an entry for each pair that the table allows, but for those in
// hermeticOnly.
var faults = map[pair]fault{
	{ingest.Configure, ingest.Uncategorised}:     {kafka: always(logtest.OffsetsCode(29)), short: true},
	{ingest.Configure, ingest.KafkaUnavailable}:  {kafka: always(logtest.HangUp(kmsg.ListOffsets)), shut: kafkaGate},
	{ingest.Configure, ingest.TopicNotFound}:     {kafka: gone(kmsg.ListOffsets, source, true)},
	{ingest.Configure, ingest.PartitionNotFound}: {kafka: gone(kmsg.ListOffsets, source, false)},
	{ingest.Configure, ingest.OffsetNotFound}:    {kafka: always(logtest.OffsetsCode(1))},
	{ingest.Configure, ingest.Network}:           {kafka: always(logtest.HangUp(kmsg.ListOffsets))},
	{ingest.Configure, ingest.SinkUnavailable}:   {sink: hangUp, shut: sinkGate, short: true},
	{ingest.Configure, ingest.SinkFailed}:        {sink: noBackend},
	{ingest.Configure, ingest.SinkRefused}:       {sink: refusal(http.StatusForbidden, "security_exception")},

	{ingest.Extract, ingest.Uncategorised}:     {kafka: always(logtest.FetchCode(2))},
	{ingest.Extract, ingest.KafkaUnavailable}:  {kafka: always(logtest.HangUp(kmsg.Fetch)), shut: kafkaGate, short: true},
	{ingest.Extract, ingest.TopicNotFound}:     {kafka: gone(kmsg.Fetch, source, true)},
	{ingest.Extract, ingest.PartitionNotFound}: {kafka: gone(kmsg.Fetch, source, false)},
	{ingest.Extract, ingest.MessageTooBig}:     {poison: `{"n":1,"s":"` + strings.Repeat("x", 66<<20) + `"}`},
	{ingest.Extract, ingest.OffsetNotFound}:    {kafka: always(logtest.FetchCode(1))},
	{ingest.Extract, ingest.Network}:           {kafka: always(logtest.HangUp(kmsg.Fetch)), short: true},

	{ingest.Transform, ingest.MessageTooBig}:   {poison: `{"n":1,"s":"` + strings.Repeat("x", 2<<20) + `"}`},
	{ingest.Transform, ingest.InvalidFormat}:   {poison: `{"n":`, short: true},
	{ingest.Transform, ingest.InvalidEvent}:    {poison: `[1]`},
	{ingest.Transform, ingest.TransformFailed}: {poison: `{"n":"no number"}`},

	{ingest.Load, ingest.Uncategorised}:   {sink: welcome, short: true},
	{ingest.Load, ingest.MessageTooBig}:   {poison: `{"n":1,"s":"` + strings.Repeat("x", 2*maxContent) + `"}`},
	{ingest.Load, ingest.Network}:         {sink: hangUp, short: true},
	{ingest.Load, ingest.SinkUnavailable}: {sink: hangUp, shut: sinkGate},
	{ingest.Load, ingest.SinkFailed}:      {sink: noBackend},
	{ingest.Load, ingest.ItemsFailed}:     {poison: `{"n":1,"status":"a mapping conflict"}`, short: true},
	{ingest.Load, ingest.SinkRefused}:     {sink: refusal(http.StatusForbidden, "cluster_block_exception"), short: true},

	{ingest.Errors, ingest.Uncategorised}:     {kafka: always(logtest.ProduceCode(29))},
	{ingest.Errors, ingest.KafkaUnavailable}:  {kafka: always(logtest.ProduceCode(5))},
	{ingest.Errors, ingest.TopicNotFound}:     {kafka: gone(kmsg.Produce, failed, true)},
	{ingest.Errors, ingest.PartitionNotFound}: {kafka: gone(kmsg.Produce, failed, false)},
	{ingest.Errors, ingest.MessageTooBig}: {
		kafka: always(logtest.ProduceAbove(100_000)), poison: strings.Repeat("no JSON ", 20_000), fate: ingest.InvalidFormat, short: true,
	},
	{ingest.Errors, ingest.Network}: {kafka: always(logtest.HangUp(kmsg.Produce)), short: true},
}

// hermeticOnly are pairs that no input or server can make this program meet.
var hermeticOnly = map[pair]string{
	{ingest.Transform, ingest.Uncategorised}:     "no transform of ours states it",
	{ingest.Transform, ingest.TopicNotFound}:     "of a redrive",
	{ingest.Transform, ingest.PartitionNotFound}: "of a redrive",
	{ingest.Transform, ingest.OffsetNotFound}:    "of a redrive",
	{ingest.Load, ingest.InvalidEvent}:           "of SQLite: a record names another index",
}

func answer(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body)) // the client may be gone
	}
}

func refusal(status int, kind string) http.HandlerFunc {
	body, err := json.Marshal(map[string]any{"status": status, "error": map[string]string{"type": kind, "reason": "by the test"}})
	if err != nil {
		panic(err)
	}
	return answer(status, "application/json", string(body))
}

func hangUp(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
