package kafkalog_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
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
				report(b, i*perFlush, ownCPU(b)-own, broker.cpu(b)-theirs)
			})
		}
	}
}

// report gives rates and costs per page.
func report(b *testing.B, pages int, own, broker time.Duration) {
	n := float64(pages)
	b.ReportMetric(n/b.Elapsed().Seconds(), "pages/s")
	b.ReportMetric(float64(own.Microseconds())/n, "own-µs/page")
	b.ReportMetric(float64(broker.Microseconds())/n, "broker-µs/page")
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
			report(b, n, ownCPU(b)-own, broker.cpu(b)-theirs)
		})
	}
}
