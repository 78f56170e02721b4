//go:build real

package elastic_test

import (
	"os"
	"testing"

	"trawl/internal/sink"
	"trawl/internal/sink/sinktest"
)

// TestReal runs the conformance suite on the server at TRAWL_ELASTIC_URL.
func TestReal(t *testing.T) {
	url := os.Getenv("TRAWL_ELASTIC_URL")
	if url == "" {
		t.Fatal("TRAWL_ELASTIC_URL is not set: give it the address of an Elasticsearch or OpenSearch")
	}
	sinktest.Run(t, func(*testing.T) sinktest.Harness {
		return sinktest.Harness{
			Process: func(t *testing.T) sink.Admin { return admin(t, url, nil) },
			Settle:  refresh(url),
		}
	})
}

func TestRealTargets(t *testing.T) {
	url := os.Getenv("TRAWL_ELASTIC_URL")
	if url == "" {
		t.Fatal("TRAWL_ELASTIC_URL is not set: give it the address of an Elasticsearch or OpenSearch")
	}
	runTargets(t, func(*testing.T) string { return url })
}
