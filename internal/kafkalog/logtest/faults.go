package logtest

import (
	"net"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Fault says what a broker answers to a request in place of the truth, if the
// fault meets it; no answer means that it hangs up. A test gives it to the
// in-process broker's ControlKey.
type Fault func(kmsg.Request) (answer kmsg.Response, hit bool)

// FaultKeys are the requests that a Fault may meet.
var FaultKeys = []kmsg.Key{kmsg.Fetch, kmsg.Produce, kmsg.ListOffsets, kmsg.Metadata}

// HangUp breaks the connection at every request of a key.
func HangUp(key kmsg.Key) Fault {
	return func(r kmsg.Request) (kmsg.Response, bool) { return nil, r.Key() == key.Int16() }
}

// FetchCode answers every fetch with an error code.
func FetchCode(code int16) Fault {
	return func(r kmsg.Request) (kmsg.Response, bool) {
		q, ok := r.(*kmsg.FetchRequest)
		if !ok {
			return nil, false
		}
		res := q.ResponseKind().(*kmsg.FetchResponse)
		part := kmsg.NewFetchResponseTopicPartition()
		part.Partition, part.ErrorCode = q.Topics[0].Partitions[0].Partition, code
		topic := kmsg.NewFetchResponseTopic()
		topic.Topic, topic.Partitions = q.Topics[0].Topic, append(topic.Partitions, part)
		res.Topics = append(res.Topics, topic)
		return res, true
	}
}

// OffsetsCode answers every question for offsets with an error code.
func OffsetsCode(code int16) Fault {
	return func(r kmsg.Request) (kmsg.Response, bool) {
		q, ok := r.(*kmsg.ListOffsetsRequest)
		if !ok {
			return nil, false
		}
		res := q.ResponseKind().(*kmsg.ListOffsetsResponse)
		for _, asked := range q.Topics {
			topic := kmsg.NewListOffsetsResponseTopic()
			topic.Topic = asked.Topic
			for _, a := range asked.Partitions {
				part := kmsg.NewListOffsetsResponseTopicPartition()
				part.Partition, part.ErrorCode, part.Offset = a.Partition, code, -1
				topic.Partitions = append(topic.Partitions, part)
			}
			res.Topics = append(res.Topics, topic)
		}
		return res, true
	}
}

// ProduceCode answers every append with an error code.
func ProduceCode(code int16) Fault {
	return func(r kmsg.Request) (kmsg.Response, bool) {
		q, ok := r.(*kmsg.ProduceRequest)
		if !ok {
			return nil, false
		}
		res := q.ResponseKind().(*kmsg.ProduceResponse)
		part := kmsg.NewProduceResponseTopicPartition()
		part.Partition, part.ErrorCode = q.Topics[0].Partitions[0].Partition, code
		topic := kmsg.NewProduceResponseTopic()
		topic.Topic, topic.Partitions = q.Topics[0].Topic, append(topic.Partitions, part)
		res.Topics = append(res.Topics, topic)
		return res, true
	}
}

// ProduceAbove refuses appends of more than so many bytes, as a topic with that
// limit does.
func ProduceAbove(limit int) Fault {
	refuse := ProduceCode(10)
	return func(r kmsg.Request) (kmsg.Response, bool) {
		if q, ok := r.(*kmsg.ProduceRequest); !ok || len(q.Topics[0].Partitions[0].Records) <= limit {
			return nil, false
		}
		return refuse(r)
	}
}

// Gone answers requests of a key as if the partition were not known, and so says
// the metadata of its topic on the broker at an address; whole: there is no topic
// at all, else it has partition 0 alone.
func Gone(key kmsg.Key, topic, broker string, whole bool) Fault {
	code := map[kmsg.Key]func(int16) Fault{kmsg.Fetch: FetchCode, kmsg.ListOffsets: OffsetsCode, kmsg.Produce: ProduceCode}[key](3)
	return func(r kmsg.Request) (kmsg.Response, bool) {
		if q, ok := r.(*kmsg.MetadataRequest); ok && len(q.Topics) == 1 && q.Topics[0].Topic != nil && *q.Topics[0].Topic == topic {
			return metadata(q, topic, broker, whole), true
		}
		return code(r)
	}
}

func metadata(q *kmsg.MetadataRequest, name, address string, whole bool) kmsg.Response {
	res := q.ResponseKind().(*kmsg.MetadataResponse)
	broker := kmsg.NewMetadataResponseBroker()
	host, port, _ := net.SplitHostPort(address) // a bad one is nobody's address, which the test will notice
	n, _ := strconv.ParseInt(port, 10, 32)
	broker.Host, broker.Port = host, int32(n)
	res.Brokers = append(res.Brokers, broker)
	topic := kmsg.NewMetadataResponseTopic()
	topic.Topic = &name
	if whole {
		topic.ErrorCode = 3
	} else {
		part := kmsg.NewMetadataResponseTopicPartition()
		part.Replicas, part.ISR = []int32{0}, []int32{0}
		topic.Partitions = append(topic.Partitions, part) // number 0 alone
	}
	res.Topics = append(res.Topics, topic)
	return res
}
