package kafkalog

import "time"

// Hasten shortens the waits of a log for tests of what happens after them.
func Hasten(l *Log) {
	l.limits = limits{
		missing: 50 * time.Millisecond,
		stall:   5 * time.Millisecond,
		topics:  200 * time.Millisecond,
		soon:    patience{next: time.Millisecond, most: 10 * time.Millisecond},
		backoff: patience{next: time.Millisecond, most: 10 * time.Millisecond},
	}
}
