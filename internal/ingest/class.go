package ingest

import "fmt"

// Class of an error: a closed list. The numbers appear in the errors topic and
// in the state of loaders, and are never reused.
type Class int

// The fourteen classes.
const (
	Uncategorised     Class = 0
	KafkaUnavailable  Class = 1
	TopicNotFound     Class = 2
	PartitionNotFound Class = 3
	MessageTooBig     Class = 4
	OffsetNotFound    Class = 5
	Network           Class = 6
	InvalidFormat     Class = 7
	InvalidEvent      Class = 8
	TransformFailed   Class = 9
	SinkUnavailable   Class = 10
	SinkFailed        Class = 11
	ItemsFailed       Class = 12
	SinkRefused       Class = 13

	classes = 14
)

var classNames = [classes]string{
	Uncategorised:     "uncategorised",
	KafkaUnavailable:  "kafka-unavailable",
	TopicNotFound:     "topic-not-found",
	PartitionNotFound: "partition-not-found",
	MessageTooBig:     "message-too-big",
	OffsetNotFound:    "offset-not-available",
	Network:           "network",
	InvalidFormat:     "invalid-format",
	InvalidEvent:      "invalid-event",
	TransformFailed:   "transformation",
	SinkUnavailable:   "sink-unavailable",
	SinkFailed:        "sink-5xx",
	ItemsFailed:       "items-failed",
	SinkRefused:       "sink-4xx",
}

// String is the name of the class as people and headers see it.
func (c Class) String() string {
	if c < 0 || c >= classes {
		return fmt.Sprintf("class-%d", int(c))
	}
	return classNames[c]
}
