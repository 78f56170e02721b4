package stack

import (
	"net"
	"strings"
	"testing"
)

func TestReservePortsRefuses(t *testing.T) {
	taken, err := net.Listen("tcp", net.JoinHostPort(Host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	_, portText, _ := net.SplitHostPort(taken.Addr().String())

	tests := []struct {
		name string
		opts Options
		want []string
	}{
		{"Temporal taken", Options{TemporalPort: port}, []string{portText, "--temporal-port", "taken"}},
		{"UI taken", Options{UIPort: port}, []string{portText, "--ui-port", "taken"}},
		{"Kafka taken", Options{KafkaPort: port}, []string{portText, "--kafka-port", "taken"}},
		{"negative", Options{UIPort: -1}, []string{"--ui-port -1"}},
		{"too large", Options{KafkaPort: 65536}, []string{"--kafka-port 65536"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p, err := reservePorts(test.opts)
			if err == nil {
				p.release()
				t.Fatal("no error")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not name %q", err, want)
				}
			}
		})
	}
}

func TestReservePortsAreDistinctAndFreed(t *testing.T) {
	p, err := reservePorts(Options{})
	if err != nil {
		t.Fatal(err)
	}
	all := []*reservedPort{&p.temporal, &p.ui, &p.kafka, &p.history, &p.matching, &p.worker}
	seen := make(map[int]bool)
	for _, r := range all {
		if r.port == 0 || seen[r.port] {
			t.Errorf("port %d of %v", r.port, seen)
		}
		seen[r.port] = true
	}
	p.release()
	p.release() // harmless
	for _, r := range all {
		l, err := net.Listen("tcp", r.address())
		if err != nil {
			t.Errorf("not freed: %v", err)
			continue
		}
		_ = l.Close()
	}
}
