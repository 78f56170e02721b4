package kafkalog

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"syscall"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
)

// Login says who we are to the brokers. The zero value is nobody.
type Login struct {
	Mechanism          string // "plain", "scram-sha-256" or "scram-sha-512"; "" or "none": no login
	Username, Password string
}

// String names the mechanism and the user, never the password.
func (c Login) String() string {
	if c.Mechanism == "" || c.Mechanism == "none" {
		return "no login"
	}
	return c.Mechanism + " as " + c.Username
}

// GoString is String, for %#v.
func (c Login) GoString() string { return c.String() }

func (c Login) mechanism() (sasl.Mechanism, error) {
	var algorithm scram.Algorithm
	switch c.Mechanism {
	case "", "none":
		return nil, nil
	case "plain":
		return plain.Mechanism{Username: c.Username, Password: c.Password}, nil
	case "scram-sha-256":
		algorithm = scram.SHA256
	case "scram-sha-512":
		algorithm = scram.SHA512
	default:
		return nil, fmt.Errorf("login: %q; choose plain, scram-sha-256 or scram-sha-512", c.Mechanism)
	}
	m, err := scram.Mechanism(algorithm, c.Username, c.Password)
	if err != nil { // it quotes neither
		return nil, errors.New("login: user name or password has characters that SCRAM forbids")
	}
	return m, nil
}

// refusedError is a failure that no waiting cures: the brokers do not take our
// credentials or certificate, or we do not take theirs.
type refusedError struct {
	err   error
	check string
}

func (e *refusedError) Error() string { return e.err.Error() + ": " + e.check }

func (e *refusedError) Unwrap() error { return e.err }

// refusals are the brokers' codes that mean so, with what to check.
var refusals = map[kafka.Error]string{
	kafka.SASLAuthenticationFailed:           "check user name and password (TRAWL_KAFKA_USERNAME, TRAWL_KAFKA_PASSWORD) and that the user exists for this SASL mechanism",
	kafka.UnsupportedSASLMechanism:           "the brokers do not offer this login: check TRAWL_KAFKA_SASL",
	kafka.IllegalSASLState:                   "the brokers do not expect this login: check TRAWL_KAFKA_SASL and the brokers' port",
	kafka.TopicAuthorizationFailed:           "the user of TRAWL_KAFKA_USERNAME may not do this: check the ACLs of the topic",
	kafka.GroupAuthorizationFailed:           "the user of TRAWL_KAFKA_USERNAME may not do this: check the ACLs of the consumer group",
	kafka.ClusterAuthorizationFailed:         "the user of TRAWL_KAFKA_USERNAME may not do this: check the ACLs of the cluster",
	kafka.TransactionalIDAuthorizationFailed: "the user of TRAWL_KAFKA_USERNAME may not do this: check the ACLs of transactional ids",
}

// explain adds what to check to an error that means a refusal. What a broker
// does not say by a code shows by what happened: see logins.
func (l *Log) explain(err error) error {
	if _, done := errors.AsType[*refusedError](err); done {
		return err
	}
	if code, ok := errors.AsType[kafka.Error](err); ok {
		if check, ok := refusals[code]; ok {
			return &refusedError{err, check}
		}
		return err
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return &refusedError{err, "we do not trust the broker's certificate: check TRAWL_KAFKA_TLS_CA_FILE, and that the certificate bears the names in TRAWL_KAFKA_BROKERS"}
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return &refusedError{err, "the broker does not speak TLS on this port: check TRAWL_KAFKA_BROKERS and TRAWL_KAFKA_TLS"}
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "remote error" {
		return &refusedError{err, "the broker refuses our side of TLS: check TRAWL_KAFKA_TLS_CERT_FILE and its key"}
	}
	if l.logins.refused() && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)) {
		return &refusedError{err, "the broker closes the connection at our login: " + refusals[kafka.SASLAuthenticationFailed]}
	}
	return err
}

func (l *Log) refused(err error) bool {
	_, ok := errors.AsType[*refusedError](l.explain(err))
	return ok
}

// logins is what became of the logins of a Log. Brokers may close a connection
// instead of answering a login that they refuse, which looks like a broken one.
type logins struct {
	open      atomic.Int64 // begun since the last that succeeded
	succeeded atomic.Bool
}

// refused: none ever succeeded, or several in a row did not; a single one may
// be in the hands of another connection at the moment.
func (l *logins) refused() bool {
	n := l.open.Load()
	return n >= 3 || n >= 1 && !l.succeeded.Load()
}

// watch counts the logins of a mechanism.
func (l *logins) watch(m sasl.Mechanism) sasl.Mechanism {
	if m == nil {
		return nil
	}
	return &watched{m, l}
}

type watched struct {
	sasl.Mechanism
	l *logins
}

func (w *watched) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	s, first, err := w.Mechanism.Start(ctx)
	w.l.open.Add(1)
	return &watchedState{s, w.l}, first, err
}

type watchedState struct {
	sasl.StateMachine
	l *logins
}

func (w *watchedState) Next(ctx context.Context, challenge []byte) (done bool, response []byte, err error) {
	done, response, err = w.StateMachine.Next(ctx, challenge)
	if err == nil && done {
		w.l.open.Store(0)
		w.l.succeeded.Store(true)
	}
	if err != nil { // of the exchange itself: a wrong password, by SCRAM
		err = fmt.Errorf("%w: %w", kafka.SASLAuthenticationFailed, err)
	}
	return done, response, err
}
