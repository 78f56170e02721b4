package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/metadata"
)

// TopicSpec is a topic as it should be. Replication above 1 implies
// min.insync.replicas=2 and unclean.leader.election.enable=false, unless Config
// says otherwise.
type TopicSpec struct {
	Name        string
	Partitions  int
	Replication int               // 0 means 1
	Config      map[string]string // Kafka's topic configuration keys
}

const (
	cleanupPolicy = "cleanup.policy"
	minInsync     = "min.insync.replicas"
	uncleanElect  = "unclean.leader.election.enable"
)

// wanted is the configuration with what the replication implies.
func (s *TopicSpec) wanted() map[string]string {
	w := map[string]string{cleanupPolicy: "delete"}
	if s.Replication > 1 {
		w[minInsync], w[uncleanElect] = "2", "false"
	}
	maps.Copy(w, s.Config)
	return w
}

func (s *TopicSpec) check() error {
	if s.Name == "" || len(s.Name) > 249 {
		return fmt.Errorf("name %q: 1 to 249 characters are needed", s.Name)
	}
	if s.Partitions < 1 {
		return fmt.Errorf("partitions: %d is less than 1", s.Partitions)
	}
	if s.Replication < 0 {
		return fmt.Errorf("replication: %d is negative", s.Replication)
	}
	return nil
}

// ErrShape says that a topic exists with another shape than is wanted. Waiting
// does not help.
var ErrShape = errors.New("existing topic has another shape")

// EnsureTopics creates the topics that are missing and returns when every
// partition of all of them has a leader that serves. A topic that exists is compared and
// never changed: other partitions, another cleanup.policy or, where the spec
// asks for replication, weaker durability is an error that names both sides. It
// may be called again and by several at once.
func (l *Log) EnsureTopics(ctx context.Context, specs []TopicSpec) error {
	for i := range specs {
		if err := specs[i].check(); err != nil {
			return &Error{"create", specs[i].Name, -1, KindOther, err}
		}
	}
	if len(specs) == 0 {
		return nil
	}
	for i := range specs {
		if err := l.patiently(ctx, func() error { return l.create(ctx, &specs[i]) }); err != nil {
			return err
		}
	}
	seen := l.layout.Load()
	for i := range specs {
		if err := l.awaitLeaders(ctx, &specs[i]); err != nil {
			return err
		}
		if err := l.compareConfig(ctx, &specs[i]); err != nil {
			return err
		}
		// A leader may be named before it knows: ask each of them.
		if _, err := l.Ends(ctx, specs[i].Name, specs[i].Partitions); err != nil {
			return err
		}
	}
	// The client would go on saying for its cache's lifetime that they are
	// unknown.
	l.refresh(seen)
	return nil
}

// create makes a topic unless it exists.
func (l *Log) create(ctx context.Context, s *TopicSpec) error {
	return l.run(ctx, "create", s.Name, -1, func(ctx context.Context) error {
		if res, err := l.metadata(ctx, s.Name); err != nil {
			return err
		} else if len(res.Topics) == 1 && res.Topics[0].ErrorCode == 0 {
			return nil
		}
		req := kafka.TopicConfig{Topic: s.Name, NumPartitions: s.Partitions, ReplicationFactor: max(1, s.Replication)}
		w := s.wanted()
		for _, k := range slices.Sorted(maps.Keys(w)) {
			req.ConfigEntries = append(req.ConfigEntries, kafka.ConfigEntry{ConfigName: k, ConfigValue: w[k]})
		}
		// kafka-go waits after a creation until its own cache shows the topic:
		// give that an end.
		short, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		res, err := l.client.CreateTopics(short, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{req}})
		if err != nil {
			return err
		}
		if err := res.Errors[s.Name]; err != nil && !errors.Is(err, kafka.TopicAlreadyExists) {
			return err
		}
		return nil
	})
}

// awaitLeaders polls until the topic can be used, and compares its shape.
func (l *Log) awaitLeaders(ctx context.Context, s *TopicSpec) error {
	const op = "create"
	ctx, cancel := context.WithTimeout(ctx, l.limits.topics)
	defer cancel()
	p := patience{next: 10 * time.Millisecond, most: 500 * time.Millisecond}
	for {
		var t *metadata.ResponseTopic
		err := l.run(ctx, op, s.Name, -1, func(ctx context.Context) error {
			res, err := l.metadata(ctx, s.Name)
			if err == nil && len(res.Topics) == 1 {
				t = &res.Topics[0]
			}
			return err
		})
		if err != nil {
			return err
		}
		if t != nil && t.ErrorCode == 0 && len(t.Partitions) > 0 {
			if err := s.compareShape(t); err != nil {
				return &Error{op, s.Name, -1, KindOther, fmt.Errorf("%w: %w", ErrShape, err)}
			}
			if led(t) {
				return nil
			}
		}
		if err := p.wait(ctx); err != nil {
			return &Error{op, s.Name, -1, KindUnavailable, fmt.Errorf("no leader for every partition: %w", err)}
		}
	}
}

func led(t *metadata.ResponseTopic) bool {
	return !slices.ContainsFunc(t.Partitions, func(p metadata.ResponsePartition) bool {
		return p.LeaderID < 0 || p.ErrorCode != 0
	})
}

func (s *TopicSpec) compareShape(t *metadata.ResponseTopic) error {
	if n := len(t.Partitions); n != s.Partitions {
		return fmt.Errorf("the topic has %d partitions, %d are wanted: delete it or ask for as many", n, s.Partitions)
	}
	for _, p := range t.Partitions {
		if n := len(p.ReplicaNodes); n < s.Replication {
			return fmt.Errorf("partition %d has %d replicas, %d are wanted: reassign it or ask for fewer", p.PartitionIndex, n, s.Replication)
		}
	}
	return nil
}

// compareConfig holds the topic's settings against the wanted ones.
func (l *Log) compareConfig(ctx context.Context, s *TopicSpec) error {
	keys := []string{cleanupPolicy}
	if s.Replication > 1 {
		keys = append(keys, minInsync, uncleanElect)
	}
	have, err := l.config(ctx, s.Name, keys)
	if err != nil {
		return err
	}
	w := s.wanted()
	for _, k := range keys {
		if !sameSetting(k, have[k], w[k]) {
			err := fmt.Errorf("%w: %s is %q, %q is wanted: change it or delete the topic", ErrShape, k, have[k], w[k])
			return &Error{"create", s.Name, -1, KindOther, err}
		}
	}
	return nil
}

// sameSetting: policies are sets, and more replicas in sync are welcome.
func sameSetting(key, have, want string) bool {
	switch key {
	case cleanupPolicy:
		return slices.Equal(settingSet(have), settingSet(want))
	case minInsync:
		h, errH := strconv.Atoi(have)
		w, errW := strconv.Atoi(want)
		return errH == nil && errW == nil && h >= w
	}
	return have == want
}

func settingSet(v string) []string {
	var set []string
	for s := range strings.SplitSeq(v, ",") {
		set = append(set, strings.TrimSpace(s))
	}
	slices.Sort(set)
	return slices.Compact(set)
}

func (l *Log) config(ctx context.Context, topic string, keys []string) (map[string]string, error) {
	var got map[string]string
	err := l.patiently(ctx, func() error {
		return l.run(ctx, "configuration of", topic, -1, func(ctx context.Context) error {
			res, err := l.client.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{{
				ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, ConfigNames: keys,
			}}})
			if err != nil {
				return err
			}
			got = map[string]string{}
			for _, r := range res.Resources {
				if r.Error != nil {
					return r.Error
				}
				for _, e := range r.ConfigEntries {
					got[e.ConfigName] = e.ConfigValue
				}
			}
			return nil
		})
	})
	return got, err
}

// Topics gives the topics whose names begin with prefix and their numbers of
// partitions; Kafka's own are left out.
func (l *Log) Topics(ctx context.Context, prefix string) (map[string]int, error) {
	var found map[string]int
	err := l.run(ctx, "list topics", "", -1, func(ctx context.Context) error {
		res, err := l.metadata(ctx)
		if err != nil {
			return err
		}
		found = map[string]int{}
		for _, t := range res.Topics {
			if t.ErrorCode == 0 && !t.IsInternal && strings.HasPrefix(t.Name, prefix) {
				found[t.Name] = len(t.Partitions)
			}
		}
		return nil
	})
	return found, err
}

// DeleteTopics deletes the topics with all they hold and returns when brokers
// no longer know them; a topic that is not there is no error.
func (l *Log) DeleteTopics(ctx context.Context, names ...string) error {
	for _, name := range names {
		if err := l.patiently(ctx, func() error { return l.delete(ctx, name) }); err != nil {
			return err
		}
	}
	for _, name := range names {
		if err := l.awaitGone(ctx, name); err != nil {
			return err
		}
	}
	l.refresh(l.layout.Load())
	return nil
}

func (l *Log) delete(ctx context.Context, name string) error {
	return l.run(ctx, "delete", name, -1, func(ctx context.Context) error {
		res, err := l.client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{name}})
		if err != nil {
			return err
		}
		if err := res.Errors[name]; err != nil && !errors.Is(err, kafka.UnknownTopicOrPartition) {
			return err
		}
		return nil
	})
}

func (l *Log) awaitGone(ctx context.Context, name string) error {
	const op = "delete"
	ctx, cancel := context.WithTimeout(ctx, l.limits.topics)
	defer cancel()
	p := patience{next: 10 * time.Millisecond, most: 500 * time.Millisecond}
	for {
		gone := false
		err := l.run(ctx, op, name, -1, func(ctx context.Context) error {
			res, err := l.metadata(ctx, name)
			gone = err == nil && len(res.Topics) == 1 && kafka.Error(res.Topics[0].ErrorCode) == kafka.UnknownTopicOrPartition
			return err
		})
		if err != nil || gone {
			return err
		}
		if err := p.wait(ctx); err != nil {
			return &Error{op, name, -1, KindUnavailable, fmt.Errorf("the topic is still there: %w", err)}
		}
	}
}

// SetConfig changes one setting of a topic.
func (l *Log) SetConfig(ctx context.Context, topic, key, value string) error {
	return l.patiently(ctx, func() error {
		return l.run(ctx, "configure", topic, -1, func(ctx context.Context) error {
			res, err := l.client.IncrementalAlterConfigs(ctx, &kafka.IncrementalAlterConfigsRequest{
				Resources: []kafka.IncrementalAlterConfigsRequestResource{{
					ResourceType: kafka.ResourceTypeTopic, ResourceName: topic,
					Configs: []kafka.IncrementalAlterConfigsRequestConfig{{Name: key, Value: value, ConfigOperation: kafka.ConfigOperationSet}},
				}},
			})
			if err != nil {
				return err
			}
			for _, r := range res.Resources {
				if r.Error != nil {
					return fmt.Errorf("%s=%q: %w", key, value, r.Error)
				}
			}
			return nil
		})
	})
}
