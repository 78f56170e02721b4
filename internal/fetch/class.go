package fetch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
)

// Class is the kind of a failed request: a closed list, stated in facts.
type Class string

// The classes.
const (
	ClassDNS      Class = "dns"      // the name has no address, or nobody answered for it
	ClassConnect  Class = "connect"  // no connection: refused, unreachable, or no reply to the dial
	ClassTLS      Class = "tls"      // the handshake or the certificate
	ClassTimeout  Class = "timeout"  // connected, but headers or the whole took too long
	ClassReset    Class = "reset"    // the connection broke before the answer was complete
	ClassProtocol Class = "protocol" // an answer that is no HTTP, or headers or coding out of bounds
	ClassSlow     Class = "too-slow" // the body came slower than the least rate
	ClassAddress  Class = "address"  // the address policy: a refusal, not a failure
	ClassURL      Class = "url"      // the locator cannot be written as a request: a refusal, too
	ClassAborted  Class = "aborted"  // we aborted it: says nothing about the site
	ClassOther    Class = "other"
)

// Causes by which a running request is cancelled.
var (
	errAborted = errors.New("request aborted")
	errTotal   = errors.New("request took longer than its deadline")
	errSlow    = errors.New("body came slower than the least rate")
	errResend  = errors.New("connection closed by the site while it was reused")
)

// protocolError marks an answer that broke a rule or a bound of ours.
type protocolError struct{ cause error }

func (e *protocolError) Error() string { return "answer not understood: " + e.cause.Error() }
func (e *protocolError) Unwrap() error { return e.cause }

// classify names the class of err, which is not nil. The causes of our own
// cancellation come first: they hide behind whatever the transport says.
func classify(err error) Class {
	var (
		address  *AddressError
		dns      *net.DNSError
		op       *net.OpError
		protocol *protocolError
	)
	switch {
	case errors.Is(err, errAborted), errors.Is(err, context.Canceled):
		return ClassAborted
	case errors.Is(err, errSlow):
		return ClassSlow
	case errors.Is(err, errTotal):
		return ClassTimeout
	case errors.Is(err, errResend):
		return ClassReset
	case errors.As(err, &address):
		return ClassAddress
	case errors.As(err, &dns):
		return ClassDNS
	case errors.As(err, &protocol):
		return ClassProtocol
	case isTLS(err):
		return ClassTLS
	case errors.As(err, &op) && op.Op == "dial":
		return ClassConnect
	case isTimeout(err):
		return ClassTimeout
	case isReset(err):
		return ClassReset
	case isProtocol(err):
		return ClassProtocol
	}
	return ClassOther
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &n) && n.Timeout()
}

func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		errors.Is(err, syscall.ECONNABORTED) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		strings.Contains(err.Error(), "server closed idle connection") ||
		strings.Contains(err.Error(), "http: server closed")
}

// isTLS also knows the handshake time-out, which net/http gives no type.
func isTLS(err error) bool {
	var (
		record *tls.RecordHeaderError
		recVal tls.RecordHeaderError
		verify *tls.CertificateVerificationError
		alert  tls.AlertError
		host   x509.HostnameError
		author x509.UnknownAuthorityError
		cert   x509.CertificateInvalidError
	)
	return errors.As(err, &record) || errors.As(err, &recVal) || errors.As(err, &verify) ||
		errors.As(err, &alert) || errors.As(err, &host) || errors.As(err, &author) || errors.As(err, &cert) ||
		strings.Contains(err.Error(), "TLS handshake timeout") || strings.Contains(err.Error(), "tls: ") ||
		strings.Contains(err.Error(), "server gave HTTP response to HTTPS client")
}

// isProtocol knows net/http's answers without a type by their words.
func isProtocol(err error) bool {
	text := err.Error()
	for _, words := range []string{
		"malformed", "invalid header", "net/http: HTTP/1.x transport", "server response headers exceeded",
		"transfer encoding", "chunked", "bad Content-Length", "invalid Content-Length", "invalid byte in chunk",
		"too many transfer", "invalid empty Content-Length", "unsupported protocol version",
	} {
		if strings.Contains(text, words) {
			return true
		}
	}
	return false
}
