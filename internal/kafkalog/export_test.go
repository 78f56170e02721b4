package kafkalog

import "time"

// Hasten shortens the waits of a log for tests of what happens after them.
func Hasten(l *Log) {
	l.limits = limits{
		missing: 50 * time.Millisecond,
		stall:   5 * time.Millisecond,
		topics:  200 * time.Millisecond,
		late:    l.limits.late,
		soon:    patience{next: time.Millisecond, most: 10 * time.Millisecond},
		backoff: patience{next: time.Millisecond, most: 10 * time.Millisecond},
	}
}

// Late shortens the time after which nothing waits for what is under way.
func Late(l *Log, after time.Duration) { l.limits.late = after }

// Waiting is how many parts wait for what is under way in a partition.
func Waiting(l *Log, topic string, partition int) int {
	l.lanes.mu.Lock()
	defer l.lanes.mu.Unlock()
	if ln := l.lanes.m[place{topic, partition}]; ln != nil {
		return len(ln.queue)
	}
	return 0
}

// Flying is how many batches of a partition are under way.
func Flying(l *Log, topic string, partition int) int {
	l.lanes.mu.Lock()
	defer l.lanes.mu.Unlock()
	if ln := l.lanes.m[place{topic, partition}]; ln != nil {
		return ln.flying
	}
	return 0
}

// Lanes is how many partitions something is under way in.
func Lanes(l *Log) int {
	l.lanes.mu.Lock()
	defer l.lanes.mu.Unlock()
	return len(l.lanes.m)
}
