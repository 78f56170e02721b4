package frontier

import (
	"encoding/binary"
	"fmt"
	"os"
)

// scratch is a disposable file of chunks: what does not fit into memory. It is
// unlinked as soon as it is open, so nothing of it survives the process. It
// grows by appending and starts over when its last chunk has been taken.
type scratch struct {
	dir     string
	file    *os.File
	flushed int64  // bytes in the file
	buf     []byte // bytes behind them
	live    int64  // chunks not yet taken
}

const (
	scratchBuffer = 1 << 20
	chunkHeader   = 12 // place of the next chunk, length of the payload
)

// place of a chunk: its offset plus one; 0 is none.
type place int64

// chain is a list of chunks.
type chain struct{ head, tail place }

func (c chain) empty() bool { return c.head == 0 }

func (s *scratch) pushBack(c *chain, payload []byte) error {
	at, err := s.append(0, payload)
	if err != nil {
		return err
	}
	if c.empty() {
		*c = chain{at, at}
		return nil
	}
	if err := s.link(c.tail, at); err != nil {
		return err
	}
	c.tail = at
	return nil
}

func (s *scratch) pushFront(c *chain, payload []byte) error {
	at, err := s.append(c.head, payload)
	if err != nil {
		return err
	}
	if c.empty() {
		c.tail = at
	}
	c.head = at
	return nil
}

// popFront takes the first chunk of a chain that is not empty. The payload is
// the caller's.
func (s *scratch) popFront(c *chain) ([]byte, error) {
	var header [chunkHeader]byte
	if err := s.read(header[:], int64(c.head-1)); err != nil {
		return nil, err
	}
	payload := make([]byte, binary.LittleEndian.Uint32(header[8:]))
	if err := s.read(payload, int64(c.head-1)+chunkHeader); err != nil {
		return nil, err
	}
	c.head = place(binary.LittleEndian.Uint64(header[:]))
	if c.head == 0 {
		c.tail = 0
	}
	if s.live--; s.live == 0 {
		return payload, s.restart()
	}
	return payload, nil
}

func (s *scratch) append(next place, payload []byte) (place, error) {
	at := place(s.flushed + int64(len(s.buf)) + 1)
	s.buf = binary.LittleEndian.AppendUint64(s.buf, uint64(next))
	s.buf = binary.LittleEndian.AppendUint32(s.buf, uint32(len(payload)))
	s.buf = append(s.buf, payload...)
	s.live++
	if len(s.buf) < scratchBuffer {
		return at, nil
	}
	return at, s.flush()
}

func (s *scratch) flush() error {
	if s.file == nil {
		f, err := os.CreateTemp(s.dir, "frontier-*.scratch")
		if err != nil {
			return fmt.Errorf("open scratch file in %q (set another data directory): %w", s.dir, err)
		}
		s.file = f
		if err := os.Remove(f.Name()); err != nil {
			return fmt.Errorf("unlink scratch file: %w", err)
		}
	}
	if _, err := s.file.WriteAt(s.buf, s.flushed); err != nil {
		return fmt.Errorf("write scratch file in %q (free some disk space): %w", s.dir, err)
	}
	s.flushed += int64(len(s.buf))
	s.buf = s.buf[:0]
	return nil
}

// link makes next follow the chunk at.
func (s *scratch) link(at, next place) error {
	off := int64(at - 1)
	if off >= s.flushed {
		binary.LittleEndian.PutUint64(s.buf[off-s.flushed:], uint64(next))
		return nil
	}
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(next))
	if _, err := s.file.WriteAt(b[:], off); err != nil {
		return fmt.Errorf("write scratch file in %q (free some disk space): %w", s.dir, err)
	}
	return nil
}

// read fills p. Appends are whole chunks, so p lies on one side of flushed.
func (s *scratch) read(p []byte, off int64) error {
	if off >= s.flushed {
		copy(p, s.buf[off-s.flushed:])
		return nil
	}
	if _, err := s.file.ReadAt(p, off); err != nil {
		return fmt.Errorf("read scratch file in %q: %w", s.dir, err)
	}
	return nil
}

func (s *scratch) restart() error {
	s.buf = s.buf[:0]
	if s.flushed == 0 {
		return nil
	}
	s.flushed = 0
	if err := s.file.Truncate(0); err != nil {
		return fmt.Errorf("truncate scratch file in %q: %w", s.dir, err)
	}
	return nil
}

// close gives the file back; the scratch may be used again afterwards, empty.
func (s *scratch) close() error {
	f := s.file
	*s = scratch{dir: s.dir}
	if f == nil {
		return nil
	}
	return f.Close()
}
