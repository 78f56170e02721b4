package ingest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"syscall"
	"testing"

	"trawl/internal/kafkalog"
	"trawl/internal/sink"
)

func TestClassify(t *testing.T) {
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	reset := &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	kafka := func(k kafkalog.Kind) error { return fmt.Errorf("wrapped: %w", &kafkalog.Error{Kind: k, Err: io.EOF}) }
	post := func(err error) error { return &url.Error{Op: "Post", URL: "http://x", Err: err} }
	for _, c := range []struct {
		state State
		err   error
		want  Class
	}{
		{Extract, kafka(kafkalog.KindOther), Uncategorised},
		{Extract, kafka(kafkalog.KindUnavailable), KafkaUnavailable},
		{Extract, kafka(kafkalog.KindTopic), TopicNotFound},
		{Errors, kafka(kafkalog.KindPartition), PartitionNotFound},
		{Errors, kafka(kafkalog.KindTooLarge), MessageTooBig},
		{Extract, kafka(kafkalog.KindOffset), OffsetNotFound},
		{Extract, kafka(kafkalog.KindNetwork), Network},
		{Extract, dial, KafkaUnavailable},
		{Extract, &net.DNSError{Name: "kafka"}, KafkaUnavailable},
		{Load, dial, SinkUnavailable},
		{Load, post(dial), SinkUnavailable},
		{Load, post(&net.DNSError{Name: "es"}), SinkUnavailable},
		{Load, &sink.UnavailableError{Err: errors.New("locked")}, SinkUnavailable},
		{Load, post(reset), Network},
		{Load, post(io.EOF), Network},
		{Load, post(context.DeadlineExceeded), Network},
		{Load, post(errors.New("http: server gave HTTP response to HTTPS client")), Network},
		{Load, post(&tls.CertificateVerificationError{Err: errors.New("unknown authority")}), Uncategorised},
		{Load, syscall.EPIPE, Network},
		{Load, &sink.RequestError{Status: 500}, SinkFailed},
		{Load, &sink.RequestError{Status: 503}, SinkFailed},
		{Load, &sink.RequestError{Status: 400}, SinkRefused},
		{Load, &sink.RequestError{Status: 429}, SinkRefused},
		{Load, &sink.RequestError{Status: 302}, Uncategorised},
		{Load, fmt.Errorf("open: %w", sink.ErrNoIndex), SinkRefused},
		{Load, &sink.AnswerError{Reason: "HTML"}, Uncategorised},
		{Load, errors.New("what?"), Uncategorised},
		{Load, &panicError{"x"}, Uncategorised},
		{Transform, &panicError{"x"}, TransformFailed},
		{Transform, io.EOF, TransformFailed},
		{Transform, &RecordError{InvalidFormat, io.EOF}, InvalidFormat},
		{Transform, &RecordError{Class(99), io.EOF}, TransformFailed},
		{Transform, &RecordError{Network, io.EOF}, TransformFailed}, // no transform can state that
		{Transform, &RecordError{OffsetNotFound, io.EOF}, OffsetNotFound},
		{Configure, errNoPosition, OffsetNotFound},
		{Configure, dial, SinkUnavailable},
		{Configure, kafka(kafkalog.KindTopic), TopicNotFound},
		{Configure, &sink.RequestError{Status: 403}, SinkRefused},
		{Load, &sink.RequestError{Status: 413}, SinkRefused},
		{Load, &aloneError{&sink.RequestError{Status: 413}}, MessageTooBig},
		{Load, &aloneError{&sink.RequestError{Status: 400}}, SinkRefused},
		{Load, &itemError{sink.Result{Status: 400}}, ItemsFailed},
		{Load, &itemError{sink.Result{Status: 400, Type: sink.TypeInvalid}}, InvalidEvent},
	} {
		got, why := Classify(c.state, c.err)
		if got != c.want || why == "" {
			t.Errorf("%s: %v is %s (%s), want %s", c.state, c.err, got, why, c.want)
		}
	}
	for c := range Class(classes) {
		if c.String() == "" {
			t.Errorf("class %d has no name", c)
		}
	}
	if Class(77).String() != "class-77" {
		t.Error("unknown class")
	}
}
