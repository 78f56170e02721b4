package kafkalog

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

// asked is what the answers of these tests are to.
var asked = []Part{{Topic: "topic", Partition: 7}}

// TestRequest: another implementation reads the same in every version.
func TestRequest(t *testing.T) {
	l := opened(t)
	recs := []Record{{Key: []byte("k"), Value: text(5000), Time: noon}}
	for version := int16(minProduceVersion); version <= maxProduceVersion; version++ {
		buf, err := l.request(t.Context(), []Part{{"topic", 7, recs}}, snappyCodec)
		if err != nil {
			t.Fatal(err)
		}
		b := *buf
		const header = 4 + 2 + 2 + 4 + 2 + len("trawl")
		if n := binary.BigEndian.Uint32(b); int(n) != len(b)-4 {
			t.Fatalf("size %d of %d bytes", n, len(b))
		}
		if !bytes.Equal(b[4:header], []byte("\x00\x00\x00\x00\x00\x00\x00\x07\x00\x05trawl")) {
			t.Fatalf("header %x", b[4:header])
		}
		req := kmsg.NewPtrProduceRequest()
		req.SetVersion(version)
		if err := req.ReadFrom(b[header:]); err != nil {
			t.Fatal(err)
		}
		p := req.Topics[0].Partitions[0]
		if req.TransactionID != nil || req.Acks != -1 || req.TimeoutMillis != 15_000 || len(req.Topics) != 1 ||
			req.Topics[0].Topic != "topic" || len(req.Topics[0].Partitions) != 1 || p.Partition != 7 {
			t.Errorf("version %d: %+v", version, req)
		}
		if !bytes.Equal(p.Records, b[len(b)-len(p.Records):]) || headerOf(p.Records).count != 1 {
			t.Errorf("version %d: %d bytes of records", version, len(p.Records))
		}
	}
}

// TestRequestOfParts: topics stand once, with their partitions, and every batch
// is the one that a request of its own would have.
func TestRequestOfParts(t *testing.T) {
	l := opened(t)
	parts := []Part{
		{"a", 0, []Record{{Key: []byte("k"), Value: text(5000), Time: noon}, {Value: text(10), Time: noon}}},
		{"a", 9, []Record{{Value: text(20), Time: noon}}},
		{"b", 1, []Record{{Value: text(3000), Time: noon}}},
	}
	buf, err := l.request(t.Context(), parts, snappyCodec)
	if err != nil {
		t.Fatal(err)
	}
	b := *buf
	if n := binary.BigEndian.Uint32(b); int(n) != len(b)-4 {
		t.Fatalf("size %d of %d bytes", n, len(b))
	}
	req := kmsg.NewPtrProduceRequest()
	req.SetVersion(maxProduceVersion)
	if err := req.ReadFrom(b[4+2+2+4+2+len("trawl"):]); err != nil {
		t.Fatal(err)
	}
	var got []Part
	for _, topic := range req.Topics {
		for _, p := range topic.Partitions {
			part := parts[len(got)]
			got = append(got, Part{Topic: topic.Topic, Partition: int(p.Partition)})
			want, err := l.pools.appendBatch(nil, part.Records, snappyCodec, noon)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(p.Records, want) {
				t.Errorf("%s/%d: %d bytes of records, want %d", topic.Topic, p.Partition, len(p.Records), len(want))
			}
		}
	}
	for i := range parts {
		parts[i].Records = nil
	}
	if len(req.Topics) != 2 || !reflect.DeepEqual(got, parts) {
		t.Errorf("%d topics, parts %v", len(req.Topics), got)
	}
}

func TestAckTimeout(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if d := ackTimeout(ctx); d > 5*time.Second || d < 4*time.Second {
		t.Errorf("got %v of 10 s", d)
	}
	ctx, cancel = context.WithTimeout(t.Context(), -1)
	defer cancel()
	if d := ackTimeout(ctx); d != time.Millisecond {
		t.Errorf("got %v when it is late", d)
	}
}

// answerTo is a broker's answer, without the size before it.
func answerTo(version int16, change func(*kmsg.ProduceResponse)) []byte {
	res := kmsg.NewPtrProduceResponse()
	res.SetVersion(version)
	topic := kmsg.NewProduceResponseTopic()
	topic.Topic = "topic"
	p := kmsg.NewProduceResponseTopicPartition()
	p.Partition, p.BaseOffset = 7, 1234
	topic.Partitions = append(topic.Partitions, p)
	res.Topics = append(res.Topics, topic)
	if change != nil {
		change(res)
	}
	return res.AppendTo([]byte{0, 0, 0, correlation})
}

func TestProduced(t *testing.T) {
	message := "record 3 has no key"
	for version := int16(minProduceVersion); version <= maxProduceVersion; version++ {
		p, err := parseProduced(answerTo(version, nil), version, asked)
		if err != nil || len(p) != 1 || p[0].base != 1234 || p[0].err != nil {
			t.Errorf("version %d: %+v, %v", version, p, err)
		}
		p, err = parseProduced(answerTo(version, func(res *kmsg.ProduceResponse) {
			r := &res.Topics[0].Partitions[0]
			r.ErrorCode = 87
			r.ErrorRecords = []kmsg.ProduceResponseTopicPartitionErrorRecord{{RelativeOffset: 3, ErrorMessage: &message}, {RelativeOffset: 4}}
			r.ErrorMessage = &message
		}), version, asked)
		if err != nil || p[0].base != -1 || !errors.Is(p[0].err, kafka.Error(87)) {
			t.Fatalf("version %d: %+v, %v", version, p, err)
		}
		if said := bytes.Contains([]byte(p[0].err.Error()), []byte(message)); said != (version >= 8) {
			t.Errorf("version %d: %v", version, p[0].err)
		}
	}
}

// TestProducedOfParts: answers come in any order, and may lack some.
func TestProducedOfParts(t *testing.T) {
	parts := []Part{{Topic: "a", Partition: 1}, {Topic: "a", Partition: 2}, {Topic: "topic", Partition: 7}, {Topic: "topic", Partition: 8}}
	out, err := parseProduced(answerTo(8, func(r *kmsg.ProduceResponse) {
		p := kmsg.NewProduceResponseTopicPartition()
		p.Partition, p.ErrorCode = 2, 6
		other := kmsg.NewProduceResponseTopic()
		other.Topic, other.Partitions = "a", append(other.Partitions, p)
		p.Partition, p.ErrorCode, p.BaseOffset = 1, 0, 55
		other.Partitions = append(other.Partitions, p)
		r.Topics = append(r.Topics, other)
	}), 8, parts)
	if err != nil || len(out) != 4 {
		t.Fatalf("%+v, %v", out, err)
	}
	if out[0] != (produced{55, nil}) || !errors.Is(out[1].err, kafka.NotLeaderForPartition) || out[2] != (produced{1234, nil}) || !errors.Is(out[3].err, errUnanswered) {
		t.Errorf("got %+v", out)
	}
	for name, change := range map[string]func(*kmsg.ProduceResponse){
		"no topic":     func(r *kmsg.ProduceResponse) { r.Topics = nil },
		"no partition": func(r *kmsg.ProduceResponse) { r.Topics[0].Partitions = nil },
	} {
		if out, err := parseProduced(answerTo(8, change), 8, asked); err != nil || out[0].base != -1 || !errors.Is(out[0].err, errUnanswered) {
			t.Errorf("%s: %+v, %v", name, out, err)
		}
	}
}

// TestProducedBad: an answer that is not to our request is none.
func TestProducedBad(t *testing.T) {
	for name, b := range map[string][]byte{
		"other topic":     answerTo(8, func(r *kmsg.ProduceResponse) { r.Topics[0].Topic = "topid" }),
		"other partition": answerTo(8, func(r *kmsg.ProduceResponse) { r.Topics[0].Partitions[0].Partition = 6 }),
		"twice":           answerTo(8, func(r *kmsg.ProduceResponse) { r.Topics = append(r.Topics, r.Topics[0]) }),
		"correlation":     append([]byte{0, 0, 0, 9}, answerTo(8, nil)[4:]...),
		"short":           answerTo(8, nil)[:40],
		"empty":           nil,
	} {
		if p, err := parseProduced(b, 8, asked); err == nil {
			t.Errorf("%s: %+v", name, p)
		}
	}
	for _, size := range []uint32{0, 3, 1 << 31, 1<<31 - 1} {
		head := binary.BigEndian.AppendUint32(nil, size)
		if _, err := readProduced(bytes.NewReader(head), 8, asked); err == nil || !strings.Contains(err.Error(), "answer of") {
			t.Errorf("an answer of %d bytes: %v", size, err)
		}
	}
}

// TestHostileProduced: no answer makes a panic or an endless loop.
func TestHostileProduced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		version := int16(rapid.IntRange(minProduceVersion, maxProduceVersion).Draw(t, "version"))
		b := answerTo(version, nil)
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			b[rapid.IntRange(0, len(b)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		}
		_, _ = parseProduced(b[:rapid.IntRange(0, len(b)).Draw(t, "len")], version, asked)
	})
}
