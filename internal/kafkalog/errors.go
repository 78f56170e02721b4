package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// Kind says what an error means for its caller. The numbers are those of the
// loader's error classes.
type Kind int

const (
	// KindOther is everything that asks for fresh clients or an operator: bad
	// checksums, unknown codecs, refused credentials, refused configurations.
	KindOther Kind = 0
	// KindUnavailable: no broker to talk to, or one that cannot serve yet
	// (electing, loading a coordinator, too few replicas). Waiting helps.
	KindUnavailable Kind = 1
	// KindTopic: a broker answers and its fresh metadata lacks the topic.
	KindTopic Kind = 2
	// KindPartition: the topic is there, the partition is not.
	KindPartition Kind = 3
	// KindTooLarge: a record or a decoded batch above a limit. Never passes.
	KindTooLarge Kind = 4
	// KindOffset: the asked offset is not in the log. Ask Bounds.
	KindOffset Kind = 5
	// KindNetwork: a connection broke or timed out after it was made, or the
	// broker says that it is no longer the leader. Trying again helps; a write
	// may have happened.
	KindNetwork Kind = 6
)

// String names the kind as it appears in messages.
func (k Kind) String() string {
	switch k {
	case KindUnavailable:
		return "Kafka unavailable"
	case KindTopic:
		return "topic not found"
	case KindPartition:
		return "partition not found"
	case KindTooLarge:
		return "too large"
	case KindOffset:
		return "offset not available"
	case KindNetwork:
		return "network"
	}
	return "failed"
}

// ErrTooLarge matches, by errors.Is, every *Error of KindTooLarge.
var ErrTooLarge = errors.New("message too large")

// ErrClosed is the cause of every call on a closed Log.
var ErrClosed = errors.New("the log is closed")

// Error of an operation on a topic. Partition is -1 where none is meant.
type Error struct {
	Op        string
	Topic     string
	Partition int
	Kind      Kind
	Err       error
}

func (e *Error) Error() string {
	subject := e.Topic
	if e.Partition >= 0 {
		subject = fmt.Sprintf("%s[%d]", e.Topic, e.Partition)
	}
	if subject != "" {
		subject = " " + subject
	}
	return fmt.Sprintf("%s%s: %s: %v", e.Op, subject, e.Kind, e.Err)
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is matches ErrTooLarge for KindTooLarge.
func (e *Error) Is(target error) bool {
	return target == ErrTooLarge && e.Kind == KindTooLarge
}

// KindOf gives the Kind of the *Error in err's chain, KindOther if there is
// none.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return KindOther
}

// BatchError names a batch of the log that cannot be read: reading again gives
// the same error, so a caller that wants to go on continues at Last+1 and
// accounts for the offsets Base to Last. Both are what the batch's header
// claims.
type BatchError struct {
	Base, Last int64
	Err        error
}

func (e *BatchError) Error() string {
	return fmt.Sprintf("batch of offsets %d to %d: %v", e.Base, e.Last, e.Err)
}

// Unwrap gives the cause.
func (e *BatchError) Unwrap() error { return e.Err }

// errLimit is the cause in a BatchError that exceeds Config.MaxBatchBytes.
var errLimit = errors.New("larger than the limit")

// routing says that the client's cached layout of the cluster has no place to
// send a request to, or that the broker asked does not know the partition. It
// takes fresh metadata to tell what that means.
func routing(err error) bool {
	return errors.Is(err, protocol.ErrNoTopic) || errors.Is(err, protocol.ErrNoPartition) ||
		errors.Is(err, protocol.ErrNoLeader) || errors.Is(err, kafka.UnknownTopicOrPartition)
}

// outdated says that what the client has cached may be at fault: its
// connections, or who leads. Other answers come from the right broker.
func outdated(err error) bool {
	code, answered := errors.AsType[kafka.Error](err)
	switch code {
	case kafka.LeaderNotAvailable, kafka.NotLeaderForPartition, kafka.BrokerNotAvailable,
		kafka.ReplicaNotAvailable, kafka.NotController, kafka.KafkaStorageError,
		kafka.ListenerNotFound, kafka.FencedLeaderEpoch, kafka.UnknownLeaderEpoch:
		return true
	}
	return !answered
}

// kindOfCause classifies what kafka-go, a broker or the network answered.
// Routing errors are KindTopic here; diagnose refines them.
func kindOfCause(err error) Kind {
	if _, ok := errors.AsType[*refusedError](err); ok {
		return KindOther
	}
	if routing(err) {
		return KindTopic
	}
	if errors.Is(err, ErrClosed) {
		return KindOther
	}
	if _, ok := errors.AsType[*missingPartition](err); ok {
		return KindPartition
	}
	if code, ok := errors.AsType[kafka.Error](err); ok {
		return kindOfCode(code)
	}
	if batch, ok := errors.AsType[*BatchError](err); ok {
		if errors.Is(batch, errLimit) {
			return KindTooLarge
		}
		return KindOther
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return KindUnavailable
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return KindUnavailable
	}
	if broken(err) {
		return KindNetwork
	}
	return KindOther
}

// broken tells errors of a connection that had been made.
func broken(err error) bool {
	for _, target := range []error{
		io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, net.ErrClosed, os.ErrDeadlineExceeded,
		context.DeadlineExceeded, syscall.ECONNRESET, syscall.EPIPE,
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	_, ok := errors.AsType[*net.OpError](err)
	return ok
}

func kindOfCode(code kafka.Error) Kind {
	switch code {
	case kafka.OffsetOutOfRange:
		return KindOffset
	case kafka.UnknownTopicOrPartition, kafka.UnknownTopicID:
		return KindTopic
	case kafka.MessageSizeTooLarge, kafka.RecordListTooLarge:
		return KindTooLarge
	// A partition that has no leader yet, a coordinator that is moving or
	// loading (certain after a broker's start), a broker that shuts down, too
	// few replicas in sync, a watermark that lags after an election (78: not
	// an offset out of range), a broker that asks for patience.
	case kafka.LeaderNotAvailable, kafka.BrokerNotAvailable, kafka.GroupLoadInProgress,
		kafka.GroupCoordinatorNotAvailable, kafka.NotCoordinatorForGroup, kafka.NotEnoughReplicas,
		kafka.NotEnoughReplicasAfterAppend, kafka.NotController, kafka.KafkaStorageError,
		kafka.ListenerNotFound, kafka.OffsetNotAvailable, kafka.ThrottlingQuotaExceeded:
		return KindUnavailable
	case kafka.NotLeaderForPartition, kafka.RequestTimedOut, kafka.ReplicaNotAvailable,
		kafka.NetworkException, kafka.FencedLeaderEpoch, kafka.UnknownLeaderEpoch:
		return KindNetwork
	}
	return KindOther
}
