// Package kafkalog is the only package that constructs Kafka clients: topics,
// append, read, offsets. It refuses knowledge of what records mean, consumer
// groups beyond a plain committed offset, and every automatism: nothing is
// auto-created, no offset is reset, no error is swallowed.
//
// Promises:
//   - Append is acknowledged by all in-sync replicas, at least once: a
//     connection that breaks after the broker took a batch gives duplicates.
//   - Read never stands still on a compacted topic. It decodes batches itself
//     (fetch.go, batch.go), because kafka-go drops a batch's last offset, and
//     without that a reader cannot leave a batch whose tail was compacted away.
//   - What is decoded is bounded by Config.MaxBatchBytes, whatever a batch
//     claims to hold.
//   - Append encodes a batch into one reused buffer and compresses it where that
//     pays (encode.go, compress.go). A page of 20 KB costs a machine with the
//     embedded broker 54 us of CPU with snappy, 65 with lz4, and 65 uncompressed,
//     of which the kernel's writing to the disk is a part.
//   - Every error is an *Error with a Kind from a closed list (errors.go).
//
// Where to start: log.go for connections and stale routing, append.go and
// produce.go, read.go, offsets.go and topics.go for one verb each.
package kafkalog

import "time"

// Record of a topic partition. Key, Value and Headers given to a callback are
// valid until it returns. Offset is ignored by Append; a zero Time means now.
type Record struct {
	Offset  int64
	Key     []byte
	Value   []byte // nil: tombstone
	Time    time.Time
	Headers []Header
}

// Header of a record.
type Header struct {
	Key   string
	Value []byte
}
