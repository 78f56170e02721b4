package stack

import (
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

const (
	// neverMillis is the interval of the broker's own cleaner: ten years. Its
	// compaction is not safe against kill -9 (see the package comment) and runs
	// on the same timer as its retention, which we therefore drive ourselves.
	neverMillis = "315360000000"
	// retentionEvery is how often segments beyond a topic's retention go.
	retentionEvery = 10 * time.Minute
)

type broker struct {
	address string
	cluster *kfake.Cluster
	stop    chan struct{}
	done    chan struct{}
}

// startBroker serves on the listener, which becomes the broker's. One node,
// topics only on request, every batch synced before it is acknowledged.
func startBroker(d *dataDir, l net.Listener, logs io.Writer) (*broker, error) {
	cluster, err := kfake.NewCluster(
		kfake.NumBrokers(1),
		kfake.ClusterID("trawl-dev"),
		kfake.ListenFn(func(string, string) (net.Listener, error) { return l, nil }),
		kfake.DataDir(d.kafka()),
		kfake.SyncWrites(),
		kfake.BrokerConfigs(map[string]string{"log.cleaner.backoff.ms": neverMillis}),
		kfake.WithLogger(kfake.BasicLogger(logs, kfake.LogLevelWarn)),
	)
	if err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("start the Kafka broker on %s: %w", d.kafka(), err)
	}
	b := &broker{
		address: l.Addr().String(),
		cluster: cluster,
		stop:    make(chan struct{}),
		done:    make(chan struct{}),
	}
	go b.applyRetention()
	return b, nil
}

func (b *broker) applyRetention() {
	defer close(b.done)
	tick := time.NewTicker(retentionEvery)
	defer tick.Stop()
	for {
		select {
		case <-b.stop:
			return
		case <-tick.C:
			b.cluster.ApplyRetention()
		}
	}
}

func (b *broker) close() error {
	close(b.stop)
	<-b.done
	b.cluster.Close()
	return nil
}
