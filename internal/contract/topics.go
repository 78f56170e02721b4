package contract

import (
	"fmt"
	"strings"
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
	if !ok || len(parts) != 3 {
		return "", "", "", false
	}
	return parts[0], parts[1], parts[2], true
}

// Key names a shard of a generation in caches.
func (r Run) Key(shard int) string { return fmt.Sprintf("%s.%s.%d", r.Crawl, r.Generation, shard) }
