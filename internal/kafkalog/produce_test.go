package kafkalog

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

// TestRequest: another implementation reads the same in every version.
func TestRequest(t *testing.T) {
	l := opened(t)
	recs := []Record{{Key: []byte("k"), Value: text(5000), Time: noon}}
	for version := int16(minProduceVersion); version <= maxProduceVersion; version++ {
		buf, err := l.request(t.Context(), "topic", 7, recs, snappyCodec)
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
		p, err := parseProduced(answerTo(version, nil), version, "topic", 7)
		if err != nil || p.base != 1234 || p.err != nil {
			t.Errorf("version %d: %+v, %v", version, p, err)
		}
		p, err = parseProduced(answerTo(version, func(res *kmsg.ProduceResponse) {
			r := &res.Topics[0].Partitions[0]
			r.ErrorCode = 87
			r.ErrorRecords = []kmsg.ProduceResponseTopicPartitionErrorRecord{{RelativeOffset: 3, ErrorMessage: &message}, {RelativeOffset: 4}}
			r.ErrorMessage = &message
		}), version, "topic", 7)
		if err != nil || p.base != -1 || !errors.Is(p.err, kafka.Error(87)) {
			t.Fatalf("version %d: %+v, %v", version, p, err)
		}
		if said := bytes.Contains([]byte(p.err.Error()), []byte(message)); said != (version >= 8) {
			t.Errorf("version %d: %v", version, p.err)
		}
	}
}

// TestProducedBad: an answer that is not to our request is none.
func TestProducedBad(t *testing.T) {
	for name, b := range map[string][]byte{
		"other topic":     answerTo(8, func(r *kmsg.ProduceResponse) { r.Topics[0].Topic = "topid" }),
		"no topic":        answerTo(8, func(r *kmsg.ProduceResponse) { r.Topics = nil }),
		"other partition": answerTo(8, func(r *kmsg.ProduceResponse) { r.Topics[0].Partitions[0].Partition = 6 }),
		"no partition":    answerTo(8, func(r *kmsg.ProduceResponse) { r.Topics[0].Partitions = nil }),
		"correlation":     append([]byte{0, 0, 0, 9}, answerTo(8, nil)[4:]...),
		"short":           answerTo(8, nil)[:40],
		"empty":           nil,
	} {
		if p, err := parseProduced(b, 8, "topic", 7); err == nil {
			t.Errorf("%s: %+v", name, p)
		}
	}
	for _, size := range []uint32{0, 3, 1 << 31, 1<<31 - 1} {
		head := binary.BigEndian.AppendUint32(nil, size)
		if _, err := readProduced(bytes.NewReader(head), 8, "topic", 7); err == nil || !strings.Contains(err.Error(), "answer of") {
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
		_, _ = parseProduced(b[:rapid.IntRange(0, len(b)).Draw(t, "len")], version, "topic", 7)
	})
}
