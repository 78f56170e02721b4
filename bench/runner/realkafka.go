package runner

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// warmTime is how long the broker of the Maven jars works before it is
// measured.
const warmTime = time.Minute

// realKafka is a broker that deploy/realstack has started and that serves
// several runs; each has topics of its own.
type realKafka struct {
	scripts, dir string
	address      string
	pid          int
	runs         int
}

// deletesSoon lets the files of deleted topics go before the next run.
const deletesSoon = "log.segment.delete.delay.ms=1000"

// startKafka on free ports. Stop it, also after an error: its process is none
// of our children.
func startKafka(ctx context.Context, scripts, dir string) (*realKafka, error) {
	k := &realKafka{scripts: scripts, dir: dir}
	ports, err := freePorts(2)
	if err != nil {
		return k, err
	}
	port := strconv.Itoa(ports[0])
	k.address = net.JoinHostPort("127.0.0.1", port)
	cmd := exec.CommandContext(ctx, filepath.Join(scripts, "kafka.sh"), port, dir, deletesSoon)
	cmd.Env = append(cmd.Environ(), "CONTROLLER_PORT="+strconv.Itoa(ports[1]))
	said := &strings.Builder{}
	cmd.Stderr = said
	out, err := cmd.Output()
	if err != nil {
		return k, fmt.Errorf("%s: %w (a JDK and Maven are needed)\n%s", cmd.Path, err, said)
	}
	if k.pid, err = strconv.Atoi(strings.TrimSpace(string(out))); err != nil {
		return k, fmt.Errorf("%s says %q: want the id of its process", cmd.Path, out)
	}
	return k, nil
}

func (k *realKafka) stop() error {
	// Not with the context of the benchmark: its end is when we stop.
	out, err := exec.CommandContext(context.Background(), filepath.Join(k.scripts, "stop.sh"), k.dir).CombinedOutput()
	if err != nil {
		return fmt.Errorf("stop the broker of %s: %w\n%s", k.dir, err, out)
	}
	return nil
}

// nextPrefix of topics: no run sees those of another.
func (k *realKafka) nextPrefix() string {
	k.runs++
	return fmt.Sprintf("bench%d", k.runs)
}

// bytes of the log segments of the topics with a prefix. Their indexes are
// larger than what is in them.
func (k *realKafka) bytes(prefix string) (int64, error) {
	return diskBytes(filepath.Join(k.dir, "data"), func(path string) bool {
		return filepath.Ext(path) == ".log" && strings.HasPrefix(filepath.Base(filepath.Dir(path)), prefix+".")
	})
}

// freePorts of the loopback address; nothing keeps them free.
func freePorts(n int) (ports []int, err error) {
	for range n {
		ln, e := net.Listen("tcp4", "127.0.0.1:0")
		if e != nil {
			return nil, errors.Join(err, e)
		}
		defer ln.Close() // at the end, so that they differ
		ports = append(ports, ln.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
