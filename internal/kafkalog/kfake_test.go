package kafkalog_test

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/goleak"

	"trawl/internal/kafkalog/logtest"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(asBroker); dir != "" {
		if err := serveBroker(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// cluster starts an in-process broker with persistent data; restart kills it
// and starts it again where it was.
func cluster(t testing.TB, opts ...kfake.Opt) (brokers []string, restart func()) {
	t.Helper()
	dir := t.TempDir()
	var c *kfake.Cluster
	start := func(port int) {
		var err error
		c, err = kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.Ports(port), kfake.DataDir(dir), kfake.SyncWrites()}, opts...)...)
		if err != nil {
			t.Fatal(err)
		}
	}
	start(0)
	t.Cleanup(func() { c.Close() })
	brokers = c.ListenAddrs()
	_, p, err := net.SplitHostPort(brokers[0])
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(p)
	if err != nil {
		t.Fatal(err)
	}
	return brokers, func() {
		c.Close()
		start(port)
	}
}

func TestConformance(t *testing.T) {
	brokers, restart := cluster(t)
	logtest.Run(t, brokers, restart)
}
