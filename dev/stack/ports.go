package stack

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
)

// reservedPort is a port that this process listens on, so that nobody else
// takes it before the server it is meant for does.
type reservedPort struct {
	port     int
	listener net.Listener // nil once taken or released
}

// reservedPorts of one stack. The Temporal server and the Web UI insist on
// opening their listeners themselves, so theirs are released just before.
type reservedPorts struct {
	temporal, ui, kafka       reservedPort
	history, matching, worker reservedPort // the server's inner services
}

func reservePorts(opts Options) (*reservedPorts, error) {
	p := &reservedPorts{}
	for _, r := range []struct {
		into       *reservedPort
		port       int
		what, flag string
	}{
		{&p.temporal, opts.TemporalPort, "the Temporal server", "--temporal-port"},
		{&p.ui, opts.UIPort, "the Web UI", "--ui-port"},
		{&p.kafka, opts.KafkaPort, "the Kafka broker", "--kafka-port"},
		{&p.history, 0, "Temporal's history service", ""},
		{&p.matching, 0, "Temporal's matching service", ""},
		{&p.worker, 0, "Temporal's worker service", ""},
	} {
		var err error
		if *r.into, err = reservePort(r.port, r.what, r.flag); err != nil {
			p.release()
			return nil, err
		}
	}
	return p, nil
}

func reservePort(port int, what, flag string) (reservedPort, error) {
	if port < 0 || port > 65535 {
		return reservedPort{}, fmt.Errorf("%s %d is no port: give 1 to 65535, or 0 for any free one", flag, port)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(Host, strconv.Itoa(port)))
	switch {
	case err == nil:
		return reservedPort{port: l.Addr().(*net.TCPAddr).Port, listener: l}, nil
	case port == 0:
		return reservedPort{}, fmt.Errorf("no free port for %s: %w", what, err)
	case errors.Is(err, syscall.EADDRINUSE):
		return reservedPort{}, fmt.Errorf("port %d for %s is taken: stop the program that listens there, or choose another with %s (0 for any free one)", port, what, flag)
	case errors.Is(err, syscall.EACCES):
		return reservedPort{}, fmt.Errorf("port %d for %s is not permitted: choose one above 1023 with %s (0 for any free one)", port, what, flag)
	default:
		return reservedPort{}, fmt.Errorf("port %d for %s (%s): %w", port, what, flag, err)
	}
}

func (r *reservedPort) address() string { return net.JoinHostPort(Host, strconv.Itoa(r.port)) }

// take hands the listener over: closing it is now the caller's.
func (r *reservedPort) take() net.Listener {
	l := r.listener
	r.listener = nil
	return l
}

func (r *reservedPort) release() {
	if l := r.take(); l != nil {
		_ = l.Close()
	}
}

func (p *reservedPorts) release() {
	for _, r := range []*reservedPort{&p.temporal, &p.ui, &p.kafka, &p.history, &p.matching, &p.worker} {
		r.release()
	}
}
