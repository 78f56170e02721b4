package contract

import (
	"fmt"
	"strings"
	"time"
)

// Kinds of topics of a generation.
const (
	TopicFrontier = "frontier"
	TopicPages    = "pages"
	TopicErrors   = "errors"
)

// Topic is the name of a topic of this generation: <prefix>.<crawl>.<gen>.<kind>.
func (r Run) Topic(prefix, kind string) string {
	return prefix + "." + r.Crawl + "." + r.Generation + "." + kind
}

// LoadGroup is the consumer group in which loaders copy their positions.
func (r Run) LoadGroup(prefix string) string { return r.Topic(prefix, "load") }

// Index is the sink's index of this generation; its alias is the spec's index.
func (r Run) Index(alias string) string { return alias + "-" + r.Generation }

// ParseTopic takes a topic name apart; ok is false for a topic that is not ours.
func ParseTopic(prefix, topic string) (crawl, generation, kind string, ok bool) {
	rest, ok := strings.CutPrefix(topic, prefix+".")
	parts := strings.Split(rest, ".")
	if !ok || len(parts) != 3 || parts[0] == loads && !isGeneration(parts[1]) {
		return "", "", "", false
	}
	return parts[0], parts[1], parts[2], true
}

// isGeneration: digits of a time, as in 20060102t150405. A load cannot have such
// a name.
func isGeneration(s string) bool {
	_, err := time.Parse("20060102t150405", s)
	return err == nil
}

// ParseLoadTopic is the name of the load that a topic belongs to.
func ParseLoadTopic(prefix, topic string) (name, kind string, ok bool) {
	rest, ok := strings.CutPrefix(topic, prefix+"."+loads+".")
	parts := strings.Split(rest, ".")
	if !ok || len(parts) != 2 || isGeneration(parts[0]) {
		return "", "", false
	}
	return parts[0], parts[1], true
}

// LoadRun stands for the topics and the group of a load: its crawl is "load",
// its generation the load's name, so that its errors are in
// <prefix>.load.<name>.errors.
func LoadRun(name string) Run { return Run{Crawl: loads, Generation: name} }

// LoadRootGroup is the consumer group in which the loaders of a load copy their
// positions.
func LoadRootGroup(prefix, name string) string { return prefix + "." + loads + "." + name }

// QueueGroup is the consumer group that keeps the task queue of an index in a data
// directory: SQLite, files.
func (r Run) QueueGroup(prefix string) string { return r.Topic(prefix, "queue") }

const loads = "load"

// Key names a shard of a generation in caches.
func (r Run) Key(shard int) string { return fmt.Sprintf("%s.%s.%d", r.Crawl, r.Generation, shard) }
