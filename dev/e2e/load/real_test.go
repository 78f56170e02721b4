//go:build e2ereal

package load

import (
	"net/http"
	"testing"

	"trawl/dev/e2e/harness"
	"trawl/internal/contract"
)

// TestRealQanal is TestQanal on the Kafka at TRAWL_KAFKA_BROKERS and the search
// server at TRAWL_ELASTIC_URL. What it makes there has the names of the example,
// and is removed at the end.
func TestRealQanal(t *testing.T) {
	brokers, url := harness.Given(t, "TRAWL_KAFKA_BROKERS"), harness.Given(t, "TRAWL_ELASTIC_URL")
	l := newLineOn(t, harness.StartDev(t, t.TempDir()), brokers, "TRAWL_ELASTIC_URL="+url)
	for _, topic := range []string{catalogueTopic, accessTopic} {
		there, err := l.log.Topics(l.ctx(), topic)
		if _, exists := there[topic]; err != nil || exists {
			t.Fatalf("topic %s exists: this test makes and removes it (%v)", topic, err)
		}
	}
	t.Cleanup(func() {
		failed := contract.LoadRun("qanal").Topic("trawl", contract.TopicErrors)
		if err := l.log.DeleteTopics(l.ctx(), catalogueTopic, accessTopic, failed); err != nil {
			t.Error(err)
		}
		l.ask(http.MethodDelete, url+"/catalogue", nil) // the sink's own, empty
		for _, w := range qanalDocs() {
			l.ask(http.MethodDelete, url+"/"+w.index, nil)
		}
	})
	l.qanal(url)
}
