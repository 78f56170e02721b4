package harness

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Limits of the stack, generous enough for a busy machine.
const (
	devStartTimeout = 60 * time.Second
	devStopTimeout  = 30 * time.Second
)

// Endpoints that trawl-dev writes with --json-endpoints.
type Endpoints struct {
	Temporal  string `json:"temporal"`  // host:port
	Namespace string `json:"namespace"` // always "default"
	UI        string `json:"ui"`        // URL
	Kafka     string `json:"kafka"`     // host:port
	Data      string `json:"data"`      // directory
}

// Dev is a running trawl-dev.
type Dev struct {
	*Process
	Endpoints

	tb testing.TB
}

// StartDev starts trawl-dev on the data directory, on free ports, and waits
// until it is ready.
func StartDev(tb testing.TB, dataDir string) *Dev {
	tb.Helper()
	return startDev(tb, dataDir, "0", "0", "0")
}

// Restart ends the stack by kill -9 and starts it again on the same data
// and the same ports, so that clients find it again.
func (d *Dev) Restart() *Dev {
	d.tb.Helper()
	d.Kill()
	return startDev(d.tb, d.Data, portOf(d.tb, d.Temporal), portOf(d.tb, d.UI), portOf(d.tb, d.Kafka))
}

// Shutdown ends the stack cleanly.
func (d *Dev) Shutdown() {
	d.tb.Helper()
	if code := d.Stop(devStopTimeout); code != 0 {
		d.tb.Errorf("trawl-dev ended with exit code %d", code)
	}
}

// Env for worker and starter to reach this stack. dataDir is where the worker
// keeps its indexes.
func (d *Dev) Env(dataDir string) []string {
	return []string{
		"TEMPORAL_ADDRESS=" + d.Temporal,
		"TEMPORAL_NAMESPACE=" + d.Namespace,
		"TRAWL_KAFKA_BROKERS=" + d.Kafka,
		"TRAWL_REPLICATION=1",
		"TRAWL_DATA_DIR=" + dataDir,
	}
}

// Given is an environment variable that names a real server: it must be set.
func Given(tb testing.TB, name string) string {
	tb.Helper()
	v := os.Getenv(name)
	if v == "" {
		tb.Fatalf("%s is not set: run this by \"make test-real\"", name)
	}
	return v
}

func startDev(tb testing.TB, dataDir, temporalPort, uiPort, kafkaPort string) *Dev {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "endpoints.json")
	p := StartProcess(tb, "trawl-dev", DevBinary(tb), nil,
		"--data", dataDir,
		"--temporal-port", temporalPort, "--ui-port", uiPort, "--kafka-port", kafkaPort,
		"--json-endpoints", file)
	p.waitLine(p.stdout, `the line "ready"`, devStartTimeout, func(line string) bool { return line == "ready" })
	text, err := os.ReadFile(file)
	if err != nil {
		tb.Fatalf("endpoints of trawl-dev: %v", err)
	}
	d := &Dev{Process: p, tb: tb}
	if err := json.Unmarshal(text, &d.Endpoints); err != nil {
		tb.Fatalf("endpoints of trawl-dev: %v in %s", err, text)
	}
	return d
}

func portOf(tb testing.TB, address string) string {
	tb.Helper()
	host := strings.TrimPrefix(address, "http://")
	_, port, err := net.SplitHostPort(host)
	if err != nil {
		tb.Fatalf("address %q: %v", address, err)
	}
	return port
}
