package settings

import (
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files")

func TestReference(t *testing.T) {
	const file = "../../docs/settings.md"
	if *update {
		if err := os.WriteFile(file, []byte(Reference()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || Reference() != string(want) {
		t.Errorf("%s differs (%v); go test -update writes it", file, err)
	}
}

func env(kv ...string) Env { return Env(kv) }

func TestDefaults(t *testing.T) {
	s, err := Load(env("HOME=/home/x").Get)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintf("%v %s %d %q %s %s %v %s", s.KafkaBrokers, s.TopicPrefix, s.Replication, s.ElasticURL.Reveal(), s.DataDir, s.HTTPAddr, s.HTTPAddrGiven, s.LogLevel)
	if want := `[127.0.0.1:9092] trawl 1 "" /home/x/.local/share/trawl 127.0.0.1:9321 false INFO`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestLoad(t *testing.T) {
	s, err := Load(env("TRAWL_KAFKA_BROKERS=a:1, b:2", "TRAWL_TOPIC_PREFIX=p-1", "TRAWL_REPLICATION=3", "TRAWL_ELASTIC_URL=https://u:geheim@es:9200/",
		"TRAWL_DATA_DIR=/d", "TRAWL_HTTP_ADDR=:0", "TRAWL_LOG=debug").Get)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintf("%v %s %d %s %s %s %v %s", s.KafkaBrokers, s.TopicPrefix, s.Replication, s.ElasticURL.Reveal(), s.DataDir, s.HTTPAddr, s.HTTPAddrGiven, s.LogLevel)
	if want := `[a:1 b:2] p-1 3 https://u:geheim@es:9200 /d :0 true DEBUG`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if s, err := Load(env("XDG_DATA_HOME=/xdg").Get); err != nil || s.DataDir != "/xdg/trawl" {
		t.Errorf("%s %v", s.DataDir, err)
	}
}

func TestLoadRefuses(t *testing.T) {
	for _, tt := range []struct{ kv, want string }{
		{"TRAWL_KAFKA_BROKERS=localhost", `TRAWL_KAFKA_BROKERS="localhost": "localhost" is no address; write host:port`},
		{"TRAWL_KAFKA_BROKERS=a:0", "is no address"},
		{"TRAWL_KAFKA_BROKERS=a:1,", "is no address"},
		{"TRAWL_TOPIC_PREFIX=a.b", "no dots"},
		{"TRAWL_REPLICATION=0", "is no number of replicas"},
		{"TRAWL_ELASTIC_URL=es:9200", "write http://host:9200"},
		{"TRAWL_ELASTIC_URL=http://es:9200,es2:9200", "several with commas"},
		{"TRAWL_HTTP_ADDR=9321", "write host:port"},
		{"TRAWL_LOG=loud", "choose debug, info, warn or error"},
	} {
		if _, err := Load(env(tt.kv).Get); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.kv, err)
		}
	}
	_, err := Load(env("TRAWL_REPLICATION=x", "TRAWL_LOG=y", "TRAWL_ELASTIC_URL=geheim").Get)
	if err == nil || strings.Count(err.Error(), "\n") != 2 || strings.Contains(err.Error(), "geheim") {
		t.Errorf("want three problems and no secret: %v", err)
	}
}

func TestUnknown(t *testing.T) {
	got := Unknown([]string{"TRAWL_LOGS=x", "TRAWL_LOG=info", "PATH=/", "TRAWL_A=", "odd"})
	if strings.Join(got, " ") != "TRAWL_A TRAWL_LOGS" {
		t.Error(got)
	}
}

func TestSecretNeverPrints(t *testing.T) {
	s := Settings{ElasticURL: "geheim"}
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "url", s.ElasticURL, "all", s)
	j, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, out := range []string{fmt.Sprint(s), fmt.Sprintf("%+v %#v %q %s %v", s, s, s.ElasticURL, s.ElasticURL, &s), log.String(), string(j)} {
		if strings.Contains(out, "geheim") || !strings.Contains(out, stars) {
			t.Errorf("printed: %s", out)
		}
	}
	if Secret("").String() != "" || s.ElasticURL.Reveal() != "geheim" {
		t.Error("an empty secret prints, or a set one is lost")
	}
}

func TestTemporal(t *testing.T) {
	dir := t.TempDir()
	o, err := Temporal([]string{"HOME=" + dir, "TEMPORAL_CONFIG_FILE=" + dir + "/none.toml"})
	if err != nil || o.HostPort != DefaultTemporal {
		t.Errorf("%q %v", o.HostPort, err)
	}
	o, err = Temporal([]string{"TEMPORAL_CONFIG_FILE=" + dir + "/none.toml", "TEMPORAL_ADDRESS=h:1", "TEMPORAL_NAMESPACE=n"})
	if err != nil || o.HostPort != "h:1" || o.Namespace != "n" {
		t.Errorf("%q %q %v", o.HostPort, o.Namespace, err)
	}
	if _, err = Temporal([]string{"TEMPORAL_CONFIG_FILE=" + dir + "/none.toml", "TEMPORAL_TLS_CLIENT_CERT_PATH=/nowhere", "TEMPORAL_TLS_CLIENT_KEY_PATH=/nowhere"}); err == nil {
		t.Error("a missing certificate is no error")
	}
}
