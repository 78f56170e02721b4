package elastic

import (
	"errors"
	"net"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"trawl/internal/sink"
)

// TestUnreachableIsReadable: what a person sees of a server that is away names
// the address and what to check, not the parameters of our request.
func TestUnreachableIsReadable(t *testing.T) {
	cause := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	err := translate(nil, &url.Error{Op: "Post", URL: "http://search:9200/shop/_bulk?filter_path=took", Err: cause})
	if _, ok := errors.AsType[*sink.UnavailableError](err); !ok || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("class lost: %v", err)
	}
	text := err.Error()
	if !strings.Contains(text, `"http://search:9200/shop/_bulk"`) || strings.Contains(text, "filter_path") || !strings.Contains(text, "check that TRAWL_ELASTIC_URL") {
		t.Errorf("got %q", text)
	}
}
