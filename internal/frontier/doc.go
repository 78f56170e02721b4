// Package frontier owns the facts of the frontier topic and what they mean: the
// codec, the fold of a shard's log into its state, and the choice of the next
// batch. A shard's state is a function of the last value of each key, so it is
// the same from the log and from any compaction of it.
//
// It refuses I/O other than its disposable scratch file, clocks (the caller
// gives the time), Kafka and Temporal clients, robots rules and URL syntax
// beyond cutting a canonical URL into pieces.
package frontier
