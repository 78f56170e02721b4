package frontier

import (
	"encoding/binary"
	"errors"
)

// record is one pending URL: the blob is a byte for the scheme, the target,
// and on recrawl the validators, parted by NUL. It is live as long as its
// locator is pending with this due time.
type record struct {
	hash uint64
	due  int64 // unix ms; 0: since it was found
	blob string
}

// step says what becomes of a record that was visited.
type step int

const (
	keep step = iota // stays where it is
	drop             // is forgotten
	stop             // stays, and the visit ends
)

// pending holds the due URLs of one host, or of one part of a split host, in
// the order in which they came.
type pending interface {
	// push adds a record behind all others.
	push(r record) error
	// visit offers the records from the oldest on. It must not be called
	// again, nor push, from within fn.
	visit(fn func(record) step) error
	// empty says that no record is left.
	empty() bool
}

// memoryPending keeps everything in memory: for tests and small crawls.
type memoryPending struct{ records []record }

func (m *memoryPending) push(r record) error {
	m.records = append(m.records, r)
	return nil
}

func (m *memoryPending) empty() bool { return len(m.records) == 0 }

func (m *memoryPending) visit(fn func(record) step) error {
	m.records, _ = visitWindow(m.records, 0, fn)
	if len(m.records) == 0 {
		m.records = nil
	}
	return nil
}

// visitWindow offers the records from index at on and closes the gaps that
// dropped ones leave. stopped says that fn ended the visit.
func visitWindow(records []record, at int, fn func(record) step) (rest []record, stopped bool) {
	to := at
	for from := at; from < len(records); from++ {
		switch fn(records[from]) {
		case drop:
			continue
		case stop:
			if to == from {
				return records, true
			}
			n := copy(records[to:], records[from:])
			clear(records[to+n:])
			return records[:to+n], true
		}
		records[to] = records[from]
		to++
	}
	clear(records[to:])
	return records[:to], false
}

// pool is the memory that the spilling queues of a shard share: at most limit
// records; beyond it the queues that grew first go to the scratch file.
type pool struct {
	limit     int
	records   int
	scratch   scratch
	residents []*spilling // in the order in which they came into memory
}

// trim brings the pool below its limit.
func (p *pool) trim() error {
	if p.records <= p.limit {
		return nil
	}
	target := p.limit - p.limit/8
	n := 0
	for n < len(p.residents) && p.records > target {
		q := p.residents[n]
		n++
		q.resident = false
		if err := q.evict(); err != nil {
			return err
		}
	}
	rest := copy(p.residents, p.residents[n:])
	clear(p.residents[rest:])
	p.residents = p.residents[:rest]
	return nil
}

// spilling is a queue with its oldest records in memory, the others in the
// scratch file, and the youngest in memory again until they are written.
type spilling struct {
	pool     *pool
	window   []record
	spilled  chain
	tail     []record
	resident bool
}

// chunkRecords bounds how many records come back from the file at a time.
const chunkRecords = 128

var errChunk = errors.New("scratch file is damaged")

func (q *spilling) empty() bool {
	return len(q.window) == 0 && q.spilled.empty() && len(q.tail) == 0
}

func (q *spilling) push(r record) error {
	if q.spilled.empty() && len(q.tail) == 0 {
		q.window = append(q.window, r)
	} else {
		q.tail = append(q.tail, r)
	}
	q.pool.records++
	q.reside()
	return q.pool.trim()
}

func (q *spilling) reside() {
	if !q.resident {
		q.resident = true
		q.pool.residents = append(q.pool.residents, q)
	}
}

// visit reads chunks as it comes to them; the caller trims the pool when it
// has visited all queues that it wants.
func (q *spilling) visit(fn func(record) step) error {
	at := 0
	for {
		before := len(q.window)
		rest, stopped := visitWindow(q.window, at, fn)
		q.window = rest
		q.pool.records -= before - len(rest)
		if stopped {
			return nil
		}
		at = len(q.window)
		more, err := q.refill()
		if err != nil {
			return err
		}
		if !more {
			if at == 0 {
				q.window, q.tail = nil, nil
			}
			return nil
		}
	}
}

// refill appends the next records to the window.
func (q *spilling) refill() (more bool, err error) {
	if q.spilled.empty() {
		more = len(q.tail) > 0
		q.window, q.tail = append(q.window, q.tail...), nil
		return more, nil
	}
	chunk, err := q.pool.scratch.popFront(&q.spilled)
	if err != nil {
		return false, err
	}
	before := len(q.window)
	if q.window, err = decodeChunk(q.window, chunk); err != nil {
		return false, err
	}
	q.pool.records += len(q.window) - before
	q.reside()
	return true, nil
}

// evict writes everything to the file, in order.
func (q *spilling) evict() error {
	q.pool.records -= len(q.window) + len(q.tail)
	window, tail := q.window, q.tail
	q.window, q.tail = nil, nil
	for end := len(window); end > 0; {
		start := (end - 1) / chunkRecords * chunkRecords
		if err := q.pool.scratch.pushFront(&q.spilled, encodeChunk(window[start:end])); err != nil {
			return err
		}
		end = start
	}
	for start := 0; start < len(tail); start += chunkRecords {
		part := tail[start:min(start+chunkRecords, len(tail))]
		if err := q.pool.scratch.pushBack(&q.spilled, encodeChunk(part)); err != nil {
			return err
		}
	}
	return nil
}

func encodeChunk(records []record) []byte {
	var b []byte
	for _, r := range records {
		b = appendRecord(b, r)
	}
	return b
}

func appendRecord(b []byte, r record) []byte {
	b = binary.LittleEndian.AppendUint64(b, r.hash)
	b = binary.AppendVarint(b, r.due)
	b = binary.AppendUvarint(b, uint64(len(r.blob)))
	return append(b, r.blob...)
}

func decodeChunk(records []record, b []byte) ([]record, error) {
	for len(b) > 0 {
		r, n := readRecord(b)
		if n == 0 {
			return records, errChunk
		}
		records = append(records, r)
		b = b[n:]
	}
	return records, nil
}

// readRecord answers with the bytes it took, 0 if they are no record.
func readRecord(b []byte) (record, int) {
	if len(b) < 8 {
		return record{}, 0
	}
	r := record{hash: binary.LittleEndian.Uint64(b)}
	at := 8
	due, n := binary.Varint(b[at:])
	if n <= 0 {
		return record{}, 0
	}
	r.due = due
	at += n
	size, n := binary.Uvarint(b[at:])
	if n <= 0 || uint64(len(b)-at-n) < size {
		return record{}, 0
	}
	at += n
	r.blob = string(b[at : at+int(size)])
	return r, at + int(size)
}
