// Package kafkalog is the only package that constructs Kafka clients: topics,
// append, read, offsets. It refuses knowledge of what records mean.
package kafkalog

import "time"

// Record of a topic partition. Key and Value given to a callback are valid
// until it returns.
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
