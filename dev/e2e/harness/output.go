package harness

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
)

// maxOutput is how much of a process's output is kept, the latest bytes.
const maxOutput = 4 << 20

// output of a process: it can be read while it grows and waited on. What
// has been dropped from its front can no longer be waited for.
type output struct {
	mu     sync.Mutex
	buf    bytes.Buffer
	cut    int64         // bytes dropped from the front
	grown  chan struct{} // closed at the next write
	closed bool
}

func newOutput() *output { return &output{grown: make(chan struct{})} }

// Write implements io.Writer; it never fails.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.buf.Write(p)
	if over := o.buf.Len() - maxOutput; over > 0 {
		o.buf.Next(over)
		o.cut += int64(over)
	}
	o.wake()
	return len(p), nil
}

// finish says that nothing will be written any more.
func (o *output) finish() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.wake()
}

func (o *output) wake() {
	close(o.grown)
	o.grown = make(chan struct{})
}

// String is all that is kept.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cut > 0 {
		return fmt.Sprintf("[%d bytes dropped]\n%s", o.cut, o.buf.String())
	}
	return o.buf.String()
}

// find reports whether a complete line that match accepts has been written,
// and else a channel that is closed when it is worth looking again, nil if never.
func (o *output) find(match func(line string) bool) (string, bool, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	lines := strings.SplitAfter(o.buf.String(), "\n")
	for _, line := range lines {
		line, complete := strings.CutSuffix(line, "\n")
		if (complete || o.closed) && match(line) {
			return line, true, nil
		}
	}
	if o.closed {
		return "", false, nil
	}
	return "", false, o.grown
}
