package kafkalog

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/metadata"
)

const (
	// requestTimeout bounds one request beyond the wait that it asks for.
	requestTimeout = 30 * time.Second
	// metadataTTL is how long routing is believed while nothing fails: any
	// failure refreshes it at once (refresh).
	metadataTTL = 30 * time.Second

	defaultMaxBatch = 64 << 20
	minMaxBatch     = 1 << 20
)

// Config of a Log.
type Config struct {
	Brokers  []string // host:port of some brokers; the others are discovered
	ClientID string   // "" means "trawl"
	// Compression of Append: "none", "snappy", "lz4" or "zstd"; "" means snappy.
	// Batches that it makes hardly smaller are sent as they are.
	Compression string
	// MaxBatchBytes bounds a decoded batch, and a record given to Append; 0
	// means 64 MiB, less than 1 MiB is refused.
	MaxBatchBytes int
	TLS           *tls.Config // nil: plain text
	Login         Login
	// Dial makes connections; nil means the system's network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Log is a Kafka cluster. It is safe for concurrent use.
type Log struct {
	client    kafka.Client
	transport *kafka.Transport
	addr      net.Addr
	clientID  string
	codec     codec
	maxBatch  int
	zstd      *zstd.Decoder
	pools     bufferPool
	limits    limits
	logins    logins

	lanes  lanes
	life   context.Context // ends with Close
	stop   context.CancelFunc
	closed atomic.Bool
	// layout counts refreshes of the cached layout of the cluster.
	layout atomic.Int64
}

// limits in time, shortened by tests.
type limits struct {
	missing time.Duration // how long Append waits for a topic or partition
	stall   time.Duration // how long one fetch of ReadRange waits
	topics  time.Duration // how long to wait for what the controller accepted
	late    time.Duration // after which what is appended waits no more for what is under way
	backoff patience      // of Append
	soon    patience      // of patiently
}

var usual = limits{
	missing: 5 * time.Second,
	stall:   500 * time.Millisecond,
	topics:  30 * time.Second,
	late:    2 * time.Second,
	backoff: patience{next: 100 * time.Millisecond, most: 5 * time.Second},
	soon:    patience{next: 50 * time.Millisecond, most: 500 * time.Millisecond},
}

// Open makes a Log without any I/O, so it fails on a bad Config only.
func Open(c Config) (*Log, error) {
	if len(c.Brokers) == 0 {
		return nil, errors.New("brokers: empty; give at least one host:port")
	}
	for _, b := range c.Brokers {
		if _, _, err := net.SplitHostPort(b); err != nil {
			return nil, fmt.Errorf("brokers: %q is not host:port: %w", b, err)
		}
	}
	codec, err := codecOf(c.Compression)
	if err != nil {
		return nil, err
	}
	if c.ClientID == "" {
		c.ClientID = "trawl"
	}
	if c.MaxBatchBytes == 0 {
		c.MaxBatchBytes = defaultMaxBatch
	}
	if c.MaxBatchBytes < minMaxBatch {
		return nil, fmt.Errorf("max batch bytes: %d is less than %d", c.MaxBatchBytes, minMaxBatch)
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(uint64(c.MaxBatchBytes)))
	if err != nil {
		return nil, fmt.Errorf("max batch bytes: %d: %w", c.MaxBatchBytes, err)
	}
	login, err := c.Login.mechanism()
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	l := &Log{
		transport: &kafka.Transport{ClientID: c.ClientID, MetadataTTL: metadataTTL, TLS: c.TLS, Context: ctx, Dial: c.Dial},
		addr:      kafka.TCP(c.Brokers...),
		clientID:  c.ClientID,
		codec:     codec,
		maxBatch:  c.MaxBatchBytes,
		zstd:      dec,
		limits:    usual,
		lanes:     lanes{m: map[place]*lane{}},
		life:      ctx,
		stop:      stop,
	}
	l.transport.SASL = l.logins.watch(login)
	l.client = kafka.Client{Addr: l.addr, Timeout: requestTimeout, Transport: l.transport}
	return l, nil
}

// Close lets go of all connections. Calls after it, and calls that it
// interrupts, fail. It may be called twice.
func (l *Log) Close() {
	if l.closed.Swap(true) {
		return
	}
	l.stop()
	l.transport.CloseIdleConnections()
}

// Ping asks a broker for its API versions: nil means that a broker answers
// now, whatever is cached.
func (l *Log) Ping(ctx context.Context) error {
	return l.run(ctx, "ping", "", -1, l.probe)
}

func (l *Log) probe(ctx context.Context) error {
	res, err := l.client.ApiVersions(ctx, &kafka.ApiVersionsRequest{})
	if err != nil {
		return err
	}
	return res.Error
}

// attempts of run: the first, one after a broken or stale connection, one
// after a change of leader in between.
const attempts = 3

// run does one request and makes its failure an *Error. A request that failed
// because of what the client had cached (a connection that the broker closed,
// a former leader, a topic that is new) is done again at once with a fresh
// view of the cluster; nothing here waits.
func (l *Log) run(ctx context.Context, op, topic string, partition int, request func(context.Context) error) error {
	var last *Error
	for range attempts {
		if l.closed.Load() {
			return &Error{op, topic, partition, KindOther, ErrClosed}
		}
		seen := l.layout.Load()
		err := request(ctx)
		if err == nil {
			return nil
		}
		if l.closed.Load() {
			err = fmt.Errorf("%w: %w", ErrClosed, err)
		}
		err = l.explain(err)
		last = &Error{op, topic, partition, kindOfCause(err), err}
		if ctx.Err() != nil {
			return l.ended(ctx, last)
		}
		stale := outdated(err)
		again := stale && last.Kind == KindNetwork && !errors.Is(err, context.DeadlineExceeded)
		if routing(err) {
			var refusal error
			last.Kind, again, refusal = l.diagnose(ctx, topic, partition)
			if refusal != nil {
				last.Err = refusal
			}
		}
		if again || stale && last.Kind == KindUnavailable {
			l.refresh(seen)
		}
		if !again {
			break
		}
	}
	return last
}

// ended adds the end of our own context to what failed last, so that a caller
// can tell its own cancellation from Kafka's trouble.
func (l *Log) ended(ctx context.Context, last *Error) *Error {
	if !errors.Is(last.Err, ctx.Err()) {
		last.Err = fmt.Errorf("%w (last: %w)", ctx.Err(), last.Err)
	}
	return last
}

// diagnose finds out what a routing error means; stale says that the cluster
// has a leader for the partition, so that only our view of it is old, refusal
// that the brokers do not talk to us at all, or not about this topic.
func (l *Log) diagnose(ctx context.Context, topic string, partition int) (kind Kind, stale bool, refusal error) {
	res, err := l.metadata(ctx, topic)
	if err != nil {
		if l.refused(err) {
			return KindOther, false, l.explain(err)
		}
		return KindUnavailable, false, nil
	}
	if len(res.Topics) != 1 || res.Topics[0].ErrorCode != 0 {
		if len(res.Topics) != 1 {
			return KindTopic, false, nil
		}
		switch code := kafka.Error(res.Topics[0].ErrorCode); {
		case l.refused(code):
			return KindOther, false, l.explain(code)
		case kindOfCode(code) == KindUnavailable:
			return KindUnavailable, false, nil
		}
		return KindTopic, false, nil
	}
	if partition < 0 {
		return KindNetwork, true, nil
	}
	for _, p := range res.Topics[0].Partitions {
		if int(p.PartitionIndex) == partition {
			return KindUnavailable, p.LeaderID >= 0 && p.ErrorCode == 0, nil
		}
	}
	return KindPartition, false, nil
}

// refresh drops the cached layout of the cluster and its idle connections, so
// that the next request discovers anew. Of many callers that saw the same
// layout fail only the first does it.
func (l *Log) refresh(seen int64) {
	if l.layout.CompareAndSwap(seen, seen+1) {
		l.transport.CloseIdleConnections()
	}
}

// metadata of the named topics (none: all), asked of a broker: kafka-go
// answers its own metadata requests from a cache that hides an outage.
func (l *Log) metadata(ctx context.Context, topics ...string) (*metadata.Response, error) {
	req := &metadata.Request{TopicNames: topics}
	res, err := l.call(ctx, 0, &call{
		key: protocol.Metadata,
		exchange: func(rw io.ReadWriter, version int16) (any, error) {
			return protocol.RoundTrip(rw, version, correlation, l.clientID, req)
		},
	})
	if err != nil {
		return nil, err
	}
	return res.(*metadata.Response), nil
}

// call sends one request over the transport's connections, with wait on top of
// the request's own time limit.
func (l *Log) call(ctx context.Context, wait time.Duration, c *call) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, wait+requestTimeout)
	defer cancel()
	res, err := l.transport.RoundTrip(ctx, l.addr, c)
	if err != nil {
		return nil, err
	}
	return res.(*answer).value, nil
}

// correlation id of our own exchanges: a connection carries one request at a
// time, so that a constant suffices to notice a stray answer.
const correlation = 7

// call is a request that writes and reads the connection itself, while the
// transport still routes it, dials, authenticates and pools. One per request.
type call struct {
	key      protocol.ApiKey
	route    func(protocol.Cluster) (protocol.Broker, error) // nil: any broker
	exchange func(rw io.ReadWriter, version int16) (any, error)

	version int16
}

type answer struct {
	key   protocol.ApiKey
	value any
}

var (
	_ protocol.RawExchanger  = (*call)(nil)
	_ protocol.BrokerMessage = (*call)(nil)
)

func (a *answer) ApiKey() protocol.ApiKey { return a.key }

func (c *call) ApiKey() protocol.ApiKey { return c.key }

func (c *call) Broker(cluster protocol.Cluster) (protocol.Broker, error) {
	if c.route == nil {
		return protocol.Broker{ID: -1}, nil
	}
	return c.route(cluster)
}

// Required is told the versions agreed on for the connection.
func (c *call) Required(versions map[protocol.ApiKey]int16) bool {
	c.version = versions[c.key]
	return true
}

func (c *call) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	v, err := c.exchange(rw, c.version)
	if err != nil {
		return nil, err
	}
	return &answer{c.key, v}, nil
}

// leader routes to the leader of a partition.
func leader(topic string, partition int) func(protocol.Cluster) (protocol.Broker, error) {
	return func(cluster protocol.Cluster) (protocol.Broker, error) {
		none := protocol.Broker{ID: -1}
		t, ok := cluster.Topics[topic]
		if !ok {
			return none, protocol.NewErrNoTopic(topic)
		}
		p, ok := t.Partitions[int32(partition)]
		if !ok {
			return none, protocol.NewErrNoPartition(topic, int32(partition))
		}
		b, ok := cluster.Brokers[p.Leader]
		if !ok {
			return none, protocol.NewErrNoLeader(topic, int32(partition))
		}
		return b, nil
	}
}

// patience is a random exponential backoff.
type patience struct {
	next, most time.Duration
}

// wait sleeps the next delay, +-50 %, or fails when ctx ends before.
func (p *patience) wait(ctx context.Context) error {
	d := p.next/2 + rand.N(p.next)
	p.next = min(p.next*2, p.most)
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// patiently repeats a request that a broker is about to serve (a coordinator
// that loads, a leader that is elected): a few tries within about two seconds,
// not an outage's worth.
func (l *Log) patiently(ctx context.Context, request func() error) error {
	p := l.limits.soon
	for try := 1; ; try++ {
		err := request()
		code, answered := errors.AsType[kafka.Error](err)
		// (kafka-go itself says BrokerNotAvailable when it knows no broker.)
		if err == nil || !answered || code == kafka.BrokerNotAvailable || try == 7 {
			return err
		}
		if k := kindOfCode(code); k != KindUnavailable && k != KindNetwork {
			return err
		}
		if p.wait(ctx) != nil {
			return err
		}
	}
}
