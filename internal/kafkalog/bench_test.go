package kafkalog_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"trawl/bench/web"
	"trawl/internal/frontier"
	"trawl/internal/kafkalog"
	"trawl/internal/kafkalog/logtest"
)

// asBroker in the environment makes the test binary a broker, whose data are
// in the named directory, until its standard input ends.
const asBroker = "KAFKALOG_TEST_BROKER"

func serveBroker(dir string) error {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DataDir(dir), kfake.SyncWrites())
	if err != nil {
		return err
	}
	defer c.Close()
	fmt.Println(c.ListenAddrs()[0])
	_, _ = bufio.NewReader(os.Stdin).ReadByte()
	return nil
}

// process is a broker of its own, so that its CPU time is not ours.
type process struct {
	addr string
	pid  int
}

// startProcess gives the broker that TRAWL_KAFKA_BROKERS and TRAWL_KAFKA_PID
// name, or starts an embedded one.
func startProcess(b *testing.B) *process {
	b.Helper()
	if addr := os.Getenv("TRAWL_KAFKA_BROKERS"); addr != "" {
		pid, err := strconv.Atoi(os.Getenv("TRAWL_KAFKA_PID"))
		if err != nil {
			b.Fatalf("TRAWL_KAFKA_PID: %v", err)
		}
		return &process{addr, pid}
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asBroker+"="+b.TempDir())
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			b.Errorf("the broker: %v", err)
		}
	})
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return &process{strings.TrimSpace(addr), cmd.Process.Pid}
}

// cpu is the time that the broker has computed, to a hundredth of a second.
func (p *process) cpu(b *testing.B) time.Duration {
	b.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')'):]))
	ticks := 0
	for _, f := range fields[12:14] {
		n, err := strconv.Atoi(f)
		if err != nil {
			b.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / 100
}

// ownCPU is the time that this process has computed.
func ownCPU(b *testing.B) time.Duration {
	b.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// pages makes records of the pages of the bench's web: about 20 KB each.
func pages(b *testing.B, n int) []kafkalog.Record {
	b.Helper()
	w, err := web.New(web.Config{PagesPerHost: 20_000, Links: 40, Size: 20 << 10})
	if err != nil {
		b.Fatal(err)
	}
	recs := make([]kafkalog.Record, n)
	for i := range recs {
		r := web.Ref{Page: i}
		recs[i] = kafkalog.Record{Key: fmt.Appendf(nil, "http://%s/%d", w.Host(0), i), Value: w.AppendBody(nil, r), Time: time.UnixMilli(1_700_000_000_000)}
	}
	return recs
}

var codecs = []string{"none", "snappy", "lz4", "zstd"}

const (
	parts    = 4
	perFlush = 100 // pages
	perPage  = 5   // facts
)

// facts makes the discovered facts of n pages.
func facts(b *testing.B, n int) []kafkalog.Record {
	b.Helper()
	w, err := web.New(web.Config{PagesPerHost: 20_000, Links: 40, Size: 20 << 10})
	if err != nil {
		b.Fatal(err)
	}
	var recs []kafkalog.Record
	for i := range n {
		for _, to := range w.Links(nil, web.Ref{Page: i})[:perPage] {
			key, value := frontier.Discovered{
				URL: fmt.Sprintf("http://%s/%d", w.Host(0), to.Page), Depth: 3, Parent: fmt.Sprintf("http://%s/%d", w.Host(0), i),
				How: frontier.HowLink, When: time.UnixMilli(1_700_000_000_000 + int64(i)),
			}.Record()
			recs = append(recs, kafkalog.Record{Key: key, Value: value})
		}
	}
	return recs
}

// flush appends the records as a crawl does: to all partitions at once.
func flush(b *testing.B, l *kafkalog.Log, topic, codec string, recs []kafkalog.Record) {
	b.Helper()
	var wg sync.WaitGroup
	for p := range parts {
		wg.Go(func() {
			n := len(recs) / parts
			if _, err := l.AppendWith(b.Context(), topic, p, recs[p*n:][:n], codec); err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
}

// BenchmarkAppend appends pages, or what they led to, to a broker in its own
// process, or to that of TRAWL_KAFKA_BROKERS. One operation is 100 pages.
func BenchmarkAppend(b *testing.B) {
	const flushes = 10
	for what, recs := range map[string][]kafkalog.Record{"pages": pages(b, flushes*perFlush), "facts": facts(b, flushes*perFlush)} {
		for _, codec := range codecs {
			b.Run(what+"/"+codec, func(b *testing.B) {
				broker := startProcess(b)
				l := logtest.Open(b, []string{broker.addr})
				topic := logtest.Topic(b, l, parts)
				flush(b, l, topic, codec, recs)
				b.ReportAllocs()
				own, theirs := ownCPU(b), broker.cpu(b)
				i := 0
				for b.Loop() {
					n := len(recs) / flushes
					flush(b, l, topic, codec, recs[i%flushes*n:][:n])
					i++
				}
				report(b, "page", i*perFlush, ownCPU(b)-own, broker.cpu(b)-theirs)
			})
		}
	}
}

// BenchmarkFlush is what a flush appends to 17 partitions: in a slow crawl a few
// facts each, in a fast one 100 pages to 8 partitions and their facts to 9. It
// compares a request each, 8 at once, with AppendAll.
func BenchmarkFlush(b *testing.B) {
	const places = 17
	few := make([]kafkalog.Part, places)
	many := make([]kafkalog.Part, places)
	for i, small, body, links := 0, facts(b, 11), pages(b, perFlush), facts(b, perFlush); i < places; i++ {
		few[i] = kafkalog.Part{Partition: i, Records: small[3*i:][:3]}
		if i < 8 {
			many[i] = kafkalog.Part{Partition: i, Records: body[i*perFlush/8 : (i+1)*perFlush/8]}
			continue
		}
		many[i] = kafkalog.Part{Partition: i, Records: links[(i-8)*len(links)/9 : (i-7)*len(links)/9]}
	}
	each := func(l *kafkalog.Log, parts []kafkalog.Part) {
		var wg sync.WaitGroup
		slots := make(chan struct{}, 8)
		for _, p := range parts {
			slots <- struct{}{}
			wg.Go(func() {
				if _, err := l.Append(b.Context(), p.Topic, p.Partition, p.Records); err != nil {
					b.Error(err)
				}
				<-slots
			})
		}
		wg.Wait()
	}
	all := func(l *kafkalog.Log, parts []kafkalog.Part) {
		if err := errors.Join(l.AppendAll(b.Context(), parts)...); err != nil {
			b.Error(err)
		}
	}
	for _, c := range []struct {
		name  string
		parts []kafkalog.Part
		how   func(*kafkalog.Log, []kafkalog.Part)
	}{{"few/each", few, each}, {"few/all", few, all}, {"many/each", many, each}, {"many/all", many, all}} {
		b.Run(c.name, func(b *testing.B) {
			broker := startProcess(b)
			l := logtest.Open(b, []string{broker.addr})
			topic := logtest.Topic(b, l, places)
			parts := slices.Clone(c.parts)
			for i := range parts {
				parts[i].Topic = topic
			}
			c.how(l, parts)
			b.ReportAllocs()
			own, theirs := ownCPU(b), broker.cpu(b)
			n := 0
			for b.Loop() {
				c.how(l, parts)
				n++
			}
			report(b, "flush", n, ownCPU(b)-own, broker.cpu(b)-theirs)
		})
	}
}

// report gives the rate of n pages or flushes, and the costs of one.
func report(b *testing.B, what string, n int, own, broker time.Duration) {
	per := func(v float64) float64 { return v / float64(n) }
	b.ReportMetric(1/per(b.Elapsed().Seconds()), what+"/s")
	b.ReportMetric(per(float64(own.Microseconds())), "own-µs/"+what)
	b.ReportMetric(per(float64(broker.Microseconds())), "broker-µs/"+what)
}

// BenchmarkRead reads what BenchmarkAppend writes. One operation is 1,000 pages.
func BenchmarkRead(b *testing.B) {
	recs := pages(b, 1000)
	for _, codec := range codecs {
		b.Run(codec, func(b *testing.B) {
			broker := startProcess(b)
			l := logtest.Open(b, []string{broker.addr})
			topic := logtest.Topic(b, l, 1)
			if _, err := l.AppendWith(b.Context(), topic, 0, recs, codec); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			own, theirs := ownCPU(b), broker.cpu(b)
			n := 0
			for b.Loop() {
				_, err := l.ReadRange(b.Context(), topic, 0, 0, int64(len(recs)), func(kafkalog.Record) error { n++; return nil })
				if err != nil {
					b.Fatal(err)
				}
			}
			report(b, "page", n, ownCPU(b)-own, broker.cpu(b)-theirs)
		})
	}
}
