package stack_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"trawl/dev/e2e/harness"
	"trawl/dev/stack"
)

const taskQueue = "stack-test"

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }

// The whole life of a stack in one process: first start, a workflow with our
// search attributes, the broker, the Web UI, a clean stop, a second start. The
// directory's name has what ends a path in SQLite's addresses.
func TestStackLife(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data %20 ? # dir")
	s := start(t, dir)

	t.Run("namespace", func(t *testing.T) { checkNamespace(t, s) })
	t.Run("workflow", func(t *testing.T) { checkWorkflow(t, s) })
	t.Run("broker creates topics only on request", func(t *testing.T) { checkTopics(t, s) })
	t.Run("broker never compacts", func(t *testing.T) { checkNoCleaner(t, s) })
	t.Run("web UI", func(t *testing.T) { checkUI(t, s) })
	t.Run("a second one is refused", func(t *testing.T) {
		second, err := stack.Start(t.Context(), stack.Options{DataDir: dir})
		if err == nil {
			_ = second.Close()
			t.Fatal("no error")
		}
		if !strings.Contains(err.Error(), "in use by another trawl-dev") {
			t.Error(err)
		}
	})
	closeStack(t, s)
	if err := s.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}

	s = start(t, dir)
	t.Run("workflow after restart", func(t *testing.T) {
		var got string
		if err := dial(t, s.Endpoints().Temporal).GetWorkflow(t.Context(), "greet", "").Get(t.Context(), &got); err != nil || got != "hello trawl" {
			t.Errorf("result %q, %v", got, err)
		}
	})
	t.Run("namespace after restart", func(t *testing.T) { checkNamespace(t, s) })
	closeStack(t, s)
}

func TestStartIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s, err := stack.Start(ctx, stack.Options{DataDir: t.TempDir()})
	if err == nil {
		_ = s.Close()
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
}

func start(t *testing.T, dir string) *stack.Stack {
	t.Helper()
	began := time.Now()
	s, err := stack.Start(t.Context(), stack.Options{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("started in %s", time.Since(began).Round(time.Millisecond))
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func closeStack(t *testing.T, s *stack.Stack) {
	t.Helper()
	began := time.Now()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	t.Logf("stopped in %s", time.Since(began).Round(time.Millisecond))
}

func dial(t *testing.T, address string) client.Client {
	t.Helper()
	c, err := client.Dial(client.Options{HostPort: address, Namespace: stack.Namespace})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func checkNamespace(t *testing.T, s *stack.Stack) {
	c := dial(t, s.Endpoints().Temporal)
	ns, err := c.WorkflowService().DescribeNamespace(t.Context(), &workflowservice.DescribeNamespaceRequest{Namespace: stack.Namespace})
	if err != nil {
		t.Fatal(err)
	}
	if got := ns.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration(); got != stack.Retention {
		t.Errorf("retention %s, want %s", got, stack.Retention)
	}
	attrs, err := c.OperatorService().ListSearchAttributes(t.Context(), &operatorservice.ListSearchAttributesRequest{Namespace: stack.Namespace})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := attrs.GetCustomAttributes(), stack.SearchAttributes(); !maps.Equal(got, want) {
		t.Errorf("search attributes %v, want %v", got, want)
	}
}

func checkWorkflow(t *testing.T, s *stack.Stack) {
	c := dial(t, s.Endpoints().Temporal)
	w := worker.New(c, taskQueue, worker.Options{})
	w.RegisterWorkflowWithOptions(greet, workflow.RegisterOptions{Name: "greet"})
	w.RegisterActivity(hello)
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	defer w.Stop()

	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
		ID:        "greet",
		TaskQueue: taskQueue,
		TypedSearchAttributes: temporal.NewSearchAttributes(
			temporal.NewSearchAttributeKeyKeyword("TrawlCrawl").ValueSet("manual"),
			temporal.NewSearchAttributeKeyInt64("TrawlPages").ValueSet(3),
		),
	}, "greet", "trawl")
	if err != nil {
		t.Fatal(err)
	}
	var got string
	if err := run.Get(t.Context(), &got); err != nil || got != "hello trawl" {
		t.Fatalf("result %q, %v", got, err)
	}
	waitListed(t, c, `TrawlCrawl = "manual" AND TrawlPages > 2`)
}

// waitListed waits for visibility, which follows a little after the history.
func waitListed(t *testing.T, c client.Client, query string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		found, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: query})
		if err != nil {
			t.Fatalf("list %s: %v", query, err)
		}
		if len(found.GetExecutions()) == 1 {
			return
		}
		<-tick.C
	}
}

func greet(ctx workflow.Context, name string) (string, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: 10 * time.Second})
	var text string
	err := workflow.ExecuteActivity(ctx, hello, name).Get(ctx, &text)
	return text, err
}

func hello(_ context.Context, name string) (string, error) { return "hello " + name, nil }

func kafka(t *testing.T, address string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(address)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func checkTopics(t *testing.T, s *stack.Stack) {
	c := kafka(t, s.Endpoints().Kafka, kgo.AllowAutoTopicCreation(), kgo.UnknownTopicRetries(0))
	err := c.ProduceSync(t.Context(), &kgo.Record{Topic: "nobody-made-this", Value: []byte("x")}).FirstErr()
	if !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("produce to a topic that is not there: %v, want %v", err, kerr.UnknownTopicOrPartition)
	}
	createTopic(t, c, "made", 1)
	if err := c.ProduceSync(t.Context(), &kgo.Record{Topic: "made", Value: []byte("x")}).FirstErr(); err != nil {
		t.Error(err)
	}
}

func createTopic(t *testing.T, c *kgo.Client, name string, partitions int32) {
	t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, 1
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if err := kerr.ErrorForCode(resp.Topics[0].ErrorCode); err != nil {
		t.Fatal(err)
	}
}

func checkNoCleaner(t *testing.T, s *stack.Stack) {
	const key = "log.cleaner.backoff.ms"
	req := kmsg.NewPtrDescribeConfigsRequest()
	res := kmsg.NewDescribeConfigsRequestResource()
	res.ResourceType, res.ResourceName, res.ConfigNames = kmsg.ConfigResourceTypeBroker, "0", []string{key}
	req.Resources = append(req.Resources, res)
	resp, err := req.RequestWith(t.Context(), kafka(t, s.Endpoints().Kafka))
	if err != nil {
		t.Fatal(err)
	}
	const year = "31536000000"
	for _, c := range resp.Resources[0].Configs {
		if c.Name == key && c.Value != nil && len(*c.Value) > len(year) {
			return
		}
	}
	t.Errorf("the cleaner of the broker may run: %+v", resp.Resources)
}

func checkUI(t *testing.T, s *stack.Stack) {
	for path, want := range map[string]string{
		"/":                                    "<html",
		"/api/v1/namespaces":                   `"default"`,
		"/api/v1/namespaces/default/workflows": "greet",
	} {
		status, body := get(t, s.Endpoints().UI+path)
		if status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("GET %s: %d without %s in %.200q", path, status, want, body)
		}
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}
