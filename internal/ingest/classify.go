package ingest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"time"

	"trawl/internal/kafkalog"
	"trawl/internal/sink"
)

// RecordError is a failure of one record, stated by a Transform.
type RecordError struct {
	Class Class // InvalidFormat, InvalidEvent, TransformFailed or MessageTooBig
	Err   error
}

func (e *RecordError) Error() string { return e.Class.String() + ": " + e.Err.Error() }

// Unwrap gives the cause.
func (e *RecordError) Unwrap() error { return e.Err }

// panicError is a panic of code that we called.
type panicError struct{ value any }

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// itemError is a document that the sink refused for good.
type itemError struct{ result sink.Result }

func (e *itemError) Error() string {
	return fmt.Sprintf("the sink refused the document with status %d %s: %s", e.result.Status, e.result.Type, e.result.Reason)
}

// aloneError is an error of a request that held one document only.
type aloneError struct{ error }

// Unwrap gives the cause.
func (e *aloneError) Unwrap() error { return e.error }

// errNoPosition: nobody has said where to begin.
var errNoPosition = errors.New("no position yet")

// guard makes a panic of f an error.
func guard(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{v}
		}
	}()
	return f()
}

// Classify names the class of an error that happened in a state, and why it is
// that one. It is the only place that does.
func Classify(s State, err error) (Class, string) {
	if e, ok := errors.AsType[*RecordError](err); ok && StepOf(Transform, Event(e.Class)).Do == Isolate {
		return e.Class, "stated by the transform"
	}
	if s == Transform {
		return TransformFailed, "the transform failed"
	}
	if _, ok := errors.AsType[*panicError](err); ok {
		return Uncategorised, "the client panicked"
	}
	if e, ok := errors.AsType[*kafkalog.Error](err); ok {
		return classOfKind(e.Kind)
	}
	if errors.Is(err, errNoPosition) {
		return OffsetNotFound, "the loader begins"
	}
	if asksSink(s) {
		if c, why, ok := classOfSink(err); ok {
			return c, why
		}
	}
	return classOfNetwork(s, err)
}

// asksSink: where a bare network error is the sink's. Kafka's are all
// *kafkalog.Error.
func asksSink(s State) bool { return s == Load || s == Configure }

func classOfKind(k kafkalog.Kind) (Class, string) {
	switch k {
	case kafkalog.KindUnavailable:
		return KafkaUnavailable, "no broker serves the partition"
	case kafkalog.KindTopic:
		return TopicNotFound, "a broker answers and does not know the topic"
	case kafkalog.KindPartition:
		return PartitionNotFound, "the topic lacks the partition"
	case kafkalog.KindTooLarge:
		return MessageTooBig, "a record or batch is above a limit"
	case kafkalog.KindOffset:
		return OffsetNotFound, "the offset is outside of the log"
	case kafkalog.KindNetwork:
		return Network, "a connection to a broker broke"
	}
	return Uncategorised, "Kafka failed in a way that asks for fresh clients or an operator"
}

func classOfSink(err error) (c Class, why string, ok bool) {
	if e, ok := errors.AsType[*itemError](err); ok {
		if e.result.Type == sink.TypeInvalid {
			return InvalidEvent, "our check of the document refused it, it was not sent", true
		}
		return ItemsFailed, "the sink refused this document", true
	}
	if e, ok := errors.AsType[*sink.RequestError](err); ok {
		_, alone := errors.AsType[*aloneError](err)
		switch {
		case e.Status == http.StatusRequestEntityTooLarge && alone:
			return MessageTooBig, "one document is larger than the sink takes", true
		case e.Status >= 500 && e.Status <= 599:
			return SinkFailed, "the sink answered 5xx", true
		case e.Status >= 400 && e.Status <= 499:
			return SinkRefused, "the sink refused the whole request", true
		}
		return Uncategorised, "the sink answered with an unexpected status", true
	}
	if _, ok := errors.AsType[*sink.UnavailableError](err); ok {
		return SinkUnavailable, "no request reached the sink", true
	}
	if _, ok := errors.AsType[*sink.AnswerError](err); ok {
		return Uncategorised, "the sink's answer cannot be understood", true
	}
	if errors.Is(err, sink.ErrNoIndex) {
		return SinkRefused, "the index is not there", true
	}
	return 0, "", false
}

func classOfNetwork(s State, err error) (Class, string) {
	unavailable := KafkaUnavailable
	if asksSink(s) {
		unavailable = SinkUnavailable
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return unavailable, "nobody accepts the connection"
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return unavailable, "the name does not resolve"
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return unavailable, "the connection is refused"
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return Uncategorised, "the server's certificate is not trusted: check the CA"
	}
	for _, broken := range []error{
		io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, net.ErrClosed, os.ErrDeadlineExceeded,
		context.DeadlineExceeded, syscall.ECONNRESET, syscall.EPIPE,
	} {
		if errors.Is(err, broken) {
			return Network, "the connection broke or timed out"
		}
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return Network, "timed out"
	}
	if _, ok := errors.AsType[*url.Error](err); ok {
		return Network, "the HTTP exchange broke"
	}
	return Uncategorised, "not an error that we know"
}

// retryAfter is what the sink asked for, if anything.
func retryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*sink.RequestError](err); ok {
		return e.RetryAfter
	}
	return 0
}

// cure is what may let documents of a refused request pass.
type cure int

const (
	patience   cure = iota // the sink is in trouble whatever is sent, or an operator has to help
	halveSoon              // one document spoils the request, or it is too large
	halveLater             // if it lasts, the request is too much for the sink
)

// cureOf says how an error that the table answers with Narrow is narrowed down.
func cureOf(err error) cure {
	e, ok := errors.AsType[*sink.RequestError](err)
	if !ok {
		return halveLater // a connection that breaks each time: a size limit in between, or no end in time
	}
	switch e.Status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
		return halveSoon
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusGatewayTimeout:
		return halveLater
	}
	return patience
}

// blocked: rights or a block (a disk that is full) concern the index and not
// this document, so it waits with the others however long that takes.
func blocked(r sink.Result) bool {
	return r.Status == http.StatusUnauthorized || r.Status == http.StatusForbidden
}

// lost: the original of a failure cannot be read any more.
func lost(err error) bool {
	c, _ := Classify(Extract, err)
	return c == OffsetNotFound || c == MessageTooBig
}

// vanishes: what comes back under the same name may be another topic.
func (c Class) vanishes() bool { return c == TopicNotFound }

// Unrecoverable is lost for a redrive: it has an end, so it does not wait for a
// topic that may be made again.
func (c Class) Unrecoverable() bool {
	return c == TopicNotFound || c == PartitionNotFound || c == OffsetNotFound || c == MessageTooBig
}

// answerOf is what the sink said about a document that stood alone.
func answerOf(err error, text string) sink.Result {
	r := sink.Result{Reason: text}
	if e, ok := errors.AsType[*sink.RequestError](err); ok {
		r.Status, r.Type = e.Status, e.Type
	}
	return r
}
