// Package deploy holds what docker-compose.yml mounts, and the test of that
// file: there is no container engine in our CI, so it is loaded and checked
// here, and not run.
package deploy

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"

	"trawl/internal/settings"
)

const composeFile = "../docker-compose.yml"

// load reads the file as "docker compose" does, with all profiles on.
func load(t *testing.T, env map[string]string) *types.Project {
	t.Helper()
	details := types.ConfigDetails{
		WorkingDir:  "..",
		ConfigFiles: []types.ConfigFile{{Filename: composeFile}},
		Environment: env,
	}
	p, err := loader.LoadWithContext(t.Context(), details, loader.WithProfiles([]string{"*"}))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// jobs end by themselves; everything else runs until it is stopped.
var jobs = []string{"schema", "namespace", "starter"}

func TestComposeServices(t *testing.T) {
	p := load(t, nil)
	want := []string{"elasticsearch", "kafka", "namespace", "opensearch", "postgres", "schema", "starter", "temporal", "ui", "worker"}
	if got := p.ServiceNames(); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
		t.Fatalf("services are %v, want %v", got, want)
	}
	pinned := regexp.MustCompile(`:[0-9]+\.[0-9][^:]*$`)
	for name, s := range p.Services {
		if s.ContainerName != "" {
			t.Errorf("%s has the fixed name %q: it could not be scaled or run twice", name, s.ContainerName)
		}
		if s.Build == nil && !pinned.MatchString(s.Image) {
			t.Errorf("%s uses %s, which is not pinned to a version", name, s.Image)
		}
		if s.MemLimit <= 0 {
			t.Errorf("%s has no memory limit", name)
		}
		if s.HealthCheck == nil && !slices.Contains(jobs, name) {
			t.Errorf("%s has no health check", name)
		}
		for _, port := range s.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s publishes %s on %q, want 127.0.0.1", name, port.Published, port.HostIP)
			}
		}
		for _, v := range s.Volumes {
			if v.Type == types.VolumeTypeBind && !v.ReadOnly {
				t.Errorf("%s writes to %s on this machine, want a named volume", name, v.Source)
			}
		}
		for on, d := range s.DependsOn {
			want := types.ServiceConditionHealthy
			if slices.Contains(jobs, on) {
				want = types.ServiceConditionCompletedSuccessfully
			}
			if d.Condition != want {
				t.Errorf("%s waits for %s until %s, want %s", name, on, d.Condition, want)
			}
		}
	}
	for name, v := range p.Volumes {
		if v.External {
			t.Errorf("volume %s must exist before: a first start would fail", name)
		}
	}
}

func TestComposeWorkerCanBeScaledAndDrained(t *testing.T) {
	w := load(t, nil).Services["worker"]
	if len(w.Ports) != 0 {
		t.Errorf("worker publishes %v: a second one could not start", w.Ports)
	}
	if w.StopGracePeriod == nil || time.Duration(*w.StopGracePeriod) != 90*time.Second {
		t.Errorf("worker has %v to stop, want 90s", w.StopGracePeriod)
	}
	if len(w.Profiles) != 0 {
		t.Errorf("worker is only started with a profile: %v", w.Profiles)
	}
}

// TestComposeVariables holds the file to the table that the programs read.
func TestComposeVariables(t *testing.T) {
	known := map[string]settings.Variable{}
	for _, v := range settings.Table() {
		known[v.Name] = v
	}
	for _, name := range []string{"worker", "starter"} {
		env := load(t, nil).Services[name].Environment
		for key, value := range env {
			v, ok := known[key]
			if !ok {
				t.Errorf("%s is given %s, which it does not read", name, key)
			}
			if value == nil || *value == "" && v.Default != "" {
				t.Errorf("%s is given %s without a value, but its default is %q", name, key, v.Default)
			}
		}
		for _, v := range known {
			if _, given := env[v.Name]; !given && !v.Temporal && v.Name != settings.HTTPAddr {
				t.Errorf("%s is not given %s: .env cannot set it", name, v.Name)
			}
		}
		s, err := settings.Load(func(key string) string {
			if v := env[key]; v != nil {
				return *v
			}
			return ""
		})
		if err != nil {
			t.Errorf("%s refuses its environment: %v", name, err)
		}
		if !slices.Equal(s.KafkaBrokers, []string{"kafka:19092"}) || s.DataDir != "/data" || s.ElasticURL.Reveal() != "http://opensearch:9200" {
			t.Errorf("%s reads %+v", name, s)
		}
	}
	for _, key := range []string{settings.KafkaBrokers, settings.ElasticURL, settings.DataDir, settings.HTTPAddr, "TEMPORAL_ADDRESS"} {
		if _, given := load(t, nil).Services["worker"].Environment[key]; !given {
			t.Errorf("worker is not given %s: its default means this machine, not the network of the containers", key)
		}
	}
}

var (
	reference = regexp.MustCompile(`\$\{([A-Z_]+):-([^}]*)\}`)
	example   = regexp.MustCompile(`(?m)^([A-Z_]+)=(.*)$`)
)

// TestEnvExample: every variable of the file is in .env.example, with the same
// default, and the other way round.
func TestEnvExample(t *testing.T) {
	used, shown := map[string]string{}, map[string]string{}
	text := read(t, composeFile)
	for _, m := range reference.FindAllStringSubmatch(text, -1) {
		if old, twice := used[m[1]]; twice && old != m[2] {
			t.Errorf("%s has two defaults, %q and %q", m[1], old, m[2])
		}
		used[m[1]] = m[2]
	}
	if n := strings.Count(text, "${"); n != len(reference.FindAllString(text, -1)) {
		t.Errorf("some of the %d variables have no default", n)
	}
	for _, m := range example.FindAllStringSubmatch(read(t, "../.env.example"), -1) {
		shown[m[1]] = m[2]
	}
	for name, def := range used {
		if shown[name] != def {
			t.Errorf(".env.example has %s=%q, docker-compose.yml %q", name, shown[name], def)
		}
	}
	for name := range shown {
		if _, ok := used[name]; !ok {
			t.Errorf(".env.example has %s, which docker-compose.yml does not use", name)
		}
	}
	if url := load(t, map[string]string{"TRAWL_ELASTIC_URL": "http://elasticsearch:9200"}).Services["worker"].Environment[settings.ElasticURL]; url == nil || *url != "http://elasticsearch:9200" {
		t.Errorf("TRAWL_ELASTIC_URL of .env does not reach the worker: %v", url)
	}
}

// TestComposeWithServersElsewhere: TLS, a login and files of secrets reach the
// programs as .env states them.
func TestComposeWithServersElsewhere(t *testing.T) {
	const ca = "/secrets/ca.pem"
	p := load(t, map[string]string{
		"TRAWL_KAFKA_BROKERS": "b1:9093,b2:9093", "TRAWL_KAFKA_TLS": "true", "TRAWL_KAFKA_TLS_CA_FILE": ca, "TRAWL_REPLICATION": "3",
		"TRAWL_KAFKA_SASL": "scram-sha-512", "TRAWL_KAFKA_USERNAME": "u", "TRAWL_KAFKA_PASSWORD_FILE": "/secrets/kafka",
		"TRAWL_ELASTIC_URL": "https://s:9200", "TRAWL_ELASTIC_API_KEY": "a2V5", "SECRETS_DIR": "/etc/trawl",
	})
	for _, name := range []string{"worker", "starter"} {
		s := p.Services[name]
		for key, want := range map[string]string{
			"TRAWL_KAFKA_BROKERS": "b1:9093,b2:9093", "TRAWL_KAFKA_TLS": "true", "TRAWL_KAFKA_TLS_CA_FILE": ca, "TRAWL_REPLICATION": "3",
			"TRAWL_KAFKA_SASL": "scram-sha-512", "TRAWL_KAFKA_USERNAME": "u", "TRAWL_KAFKA_PASSWORD": "", "TRAWL_KAFKA_PASSWORD_FILE": "/secrets/kafka",
			"TRAWL_ELASTIC_URL": "https://s:9200", "TRAWL_ELASTIC_API_KEY": "a2V5",
		} {
			if got := s.Environment[key]; got == nil || *got != want {
				t.Errorf("%s is given %s=%v, want %q", name, key, got, want)
			}
		}
		if !slices.ContainsFunc(s.Volumes, func(v types.ServiceVolumeConfig) bool {
			return v.Source == "/etc/trawl" && v.Target == "/secrets" && v.ReadOnly
		}) {
			t.Errorf("%s does not see the secrets: %+v", name, s.Volumes)
		}
	}
}

func TestKafkaListeners(t *testing.T) {
	env := load(t, nil).Services["kafka"].Environment
	for key, want := range map[string]string{
		"KAFKA_ADVERTISED_LISTENERS":      "INSIDE://kafka:19092,HOST://127.0.0.1:9092",
		"KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
	} {
		if env[key] == nil || *env[key] != want {
			t.Errorf("%s is %v, want %s", key, env[key], want)
		}
	}
}

// TestSearchAttributes: the job registers exactly what the development stack
// registers, which is the only list of them.
func TestSearchAttributes(t *testing.T) {
	inStack := regexp.MustCompile(`"(Trawl\w+)":\s*enumspb\.INDEXED_VALUE_TYPE_(\w+)`)
	inScript := regexp.MustCompile(`(?m)^attribute (\w+) (\w+)$`)
	want, got := map[string]string{}, map[string]string{}
	for _, m := range inStack.FindAllStringSubmatch(read(t, "../dev/stack/attributes.go"), -1) {
		want[m[1]] = m[2]
	}
	for _, m := range inScript.FindAllStringSubmatch(read(t, "temporal/namespace.sh"), -1) {
		got[m[1]] = strings.ToUpper(m[2])
	}
	if len(want) == 0 {
		t.Fatal("found no search attributes in dev/stack/attributes.go")
	}
	for name, kind := range want {
		if got[name] != kind {
			t.Errorf("namespace.sh registers %s as %q, the development stack as %s", name, got[name], kind)
		}
	}
	if len(got) != len(want) {
		t.Errorf("namespace.sh registers %v, want %v", got, want)
	}
}
