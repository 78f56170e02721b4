// Package stack runs what trawl needs around it on one machine, in one
// process: a Temporal server, its Web UI and a Kafka broker, persistent in one
// data directory, reachable on 127.0.0.1 only.
//
// It owns the data directory (its lock, its version, its layout), the ports,
// the namespace with its retention, and the search attributes. It refuses
// to migrate data between versions, to listen anywhere but on loopback, to
// create a topic that nobody asked for, and to be a production deployment.
//
// What was acknowledged survives kill -9: Temporal commits to SQLite in WAL
// mode before it answers, and the broker writes and syncs a batch before it
// acknowledges it. For the same reason the broker never compacts a log here:
// its compaction deletes the old segments before it has written the new ones,
// so that a kill in between would lose acknowledged records. A compacted topic
// only grows; readers fold the same state from it.
package stack
