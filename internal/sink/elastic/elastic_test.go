package elastic_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"trawl/internal/sink"
	"trawl/internal/sink/elastic"
	"trawl/internal/sink/elastic/estest"
	"trawl/internal/sink/sinktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const index = "crawl-20260102t030405"

func admin(t *testing.T, url string, edit func(*elastic.Config)) *elastic.Admin {
	t.Helper()
	cfg := elastic.Config{URL: url, Timeout: 30 * time.Second}
	if edit != nil {
		edit(&cfg)
	}
	a, err := elastic.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

// refresh makes writes visible, as time does.
func refresh(url string) func(*testing.T, string) {
	return func(t *testing.T, index string) {
		t.Helper()
		res, err := http.Post(url+"/"+index+"/_refresh", "application/json", nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		http.DefaultClient.CloseIdleConnections()
	}
}

func server(t *testing.T) (*estest.Server, sink.Sink) {
	t.Helper()
	s := estest.New()
	t.Cleanup(s.Close)
	a := admin(t, s.URL(), nil)
	if err := a.Prepare(t.Context(), "crawl", index, true); err != nil {
		t.Fatal(err)
	}
	w, err := a.Open(t.Context(), index)
	if err != nil {
		t.Fatal(err)
	}
	return s, w
}

func TestConformance(t *testing.T) {
	sinktest.Run(t, func(t *testing.T) sinktest.Harness {
		s := estest.New()
		t.Cleanup(s.Close)
		return sinktest.Harness{
			Process: func(t *testing.T) sink.Admin { return admin(t, s.URL(), nil) },
			Settle:  refresh(s.URL()),
		}
	})
}

var ops = []sink.Op{sinktest.Op("a", 1, "t", "x"), sinktest.Op("b", 1, "t", "y"), {ID: "c", Version: 1, Delete: true}}

// Whole-request errors are typed, with what the server asked for.
func TestRequestErrors(t *testing.T) {
	for name, c := range map[string]struct {
		status     int
		header     string
		body       string
		want       sink.RequestError
		wantAnswer bool
	}{
		"json 429":   {429, "7", `{"status":429,"error":{"type":"es_rejected_execution_exception","reason":"full"}}`, sink.RequestError{Status: 429, RetryAfter: 7 * time.Second, Type: "es_rejected_execution_exception", Reason: "full"}, false},
		"html 502":   {502, "", "<html>bad gateway</html>", sink.RequestError{Status: 502}, false},
		"empty 413":  {413, "", "", sink.RequestError{Status: 413}, false},
		"401":        {401, "", `{"error":{"type":"security_exception","reason":"missing"},"status":401}`, sink.RequestError{Status: 401, Type: "security_exception", Reason: "missing: check TRAWL_ELASTIC_USERNAME and its password, or TRAWL_ELASTIC_API_KEY"}, false},
		"bare 403":   {403, "", "", sink.RequestError{Status: 403, Reason: "check the rights of the user of TRAWL_ELASTIC_USERNAME or TRAWL_ELASTIC_API_KEY, and blocks of the index"}, false},
		"text error": {500, "nonsense", `{"error":"plain text","status":500}`, sink.RequestError{Status: 500}, false},
		"redirect":   {302, "", "", sink.RequestError{Status: 302}, false},
		"html 200":   {200, "", "<html>welcome</html>", sink.RequestError{}, true},
		"fewer":      {200, "", `{"errors":false,"items":[{"index":{"status":201}}]}`, sink.RequestError{}, true},
		"more":       {200, "", `{"errors":false,"items":[{"index":{"status":201}},{"index":{"status":201}},{"delete":{"status":200}},{"index":{"status":201}}]}`, sink.RequestError{}, true},
		"mixed up":   {200, "", `{"errors":false,"items":[{"delete":{"status":200}},{"index":{"status":201}},{"index":{"status":201}}]}`, sink.RequestError{}, true},
		"no errors":  {200, "", `{"items":[]}`, sink.RequestError{}, true},
		"empty 200":  {200, "", "", sink.RequestError{}, true},
		"null":       {200, "", "null", sink.RequestError{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s, w := server(t)
			s.Before = func(w http.ResponseWriter, r *http.Request) bool {
				if c.header != "" {
					w.Header().Set("Retry-After", c.header)
				}
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
				return true
			}
			_, err := w.Write(t.Context(), ops)
			if _, ok := errors.AsType[*sink.AnswerError](err); ok != c.wantAnswer {
				t.Fatalf("got %v (%T)", err, err)
			}
			if e, ok := errors.AsType[*sink.RequestError](err); !c.wantAnswer && (!ok || *e != c.want) {
				t.Fatalf("got %v (%T), want %+v", err, err, c.want)
			}
		})
	}
}

func TestNobodyListens(t *testing.T) {
	s, w := server(t)
	s.Close()
	_, _ = w.Write(t.Context(), ops) // a pooled connection breaks first
	for range 4 {                    // olivere alternates between two errors
		_, err := w.Write(t.Context(), ops)
		if _, ok := errors.AsType[*sink.UnavailableError](err); !ok {
			t.Fatalf("got %v (%T), want unavailable", err, err)
		}
	}
}

func TestConnectionBreaks(t *testing.T) {
	s, w := server(t)
	s.Before = func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }
	_, err := w.Write(t.Context(), ops)
	if _, ok := errors.AsType[*sink.UnavailableError](err); ok || err == nil {
		t.Fatalf("got %v (%T): the connection was made, so the write may have happened", err, err)
	}
	s.Set(func(s *estest.Server) { s.Before = nil })
	if _, err := w.Write(t.Context(), ops); err != nil {
		t.Fatalf("afterwards: %v", err)
	}
}

func TestSlowServer(t *testing.T) {
	s := estest.New()
	defer s.Close()
	release := make(chan struct{})
	defer close(release)
	s.Before = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "_bulk") {
			<-release
		}
		return false
	}
	a := admin(t, s.URL(), func(c *elastic.Config) { c.Timeout = 50 * time.Millisecond })
	if err := a.Prepare(t.Context(), "crawl", index, true); err != nil {
		t.Fatal(err)
	}
	w, err := a.Open(t.Context(), index)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(t.Context(), ops); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v, want a time-out", err)
	}
}

func TestItems(t *testing.T) {
	for status, want := range map[int]sink.Outcome{
		200: sink.Loaded, 409: sink.Superseded, 400: sink.Rejected, 404: sink.Rejected,
		429: sink.Busy, 503: sink.Busy, 500: sink.Busy, 403: sink.Busy,
	} {
		s, w := server(t)
		s.Item = func(_, id string) (int, string) {
			if id == "b" && status != 200 {
				return status, "some_exception"
			}
			return 0, ""
		}
		r, err := w.Write(t.Context(), ops)
		if err != nil {
			t.Fatal(err)
		}
		if r[0].Outcome != sink.Loaded || r[1].Outcome != want || r[2].Outcome != sink.Loaded {
			t.Errorf("status %d: %+v", status, r)
		}
		if status != 200 && (r[1].Type != "some_exception" || r[1].Status != status || r[1].Reason == "") {
			t.Errorf("status %d: %+v", status, r[1])
		}
	}
}

func TestMappingConflict(t *testing.T) {
	_, w := server(t)
	r, err := w.Write(t.Context(), []sink.Op{
		{ID: "a", Doc: []byte(`{"fetched_at":"yesterday"}`)}, {ID: "b", Doc: []byte(`{"status":"x"}`)}, {ID: "c", Doc: []byte(`{"other":"x"}`)},
	})
	if err != nil || r[0].Outcome != sink.Rejected || r[1].Outcome != sink.Rejected || r[2].Outcome != sink.Loaded {
		t.Fatalf("got %+v, %v", r, err)
	}
}

func TestTooLarge(t *testing.T) {
	s, w := server(t)
	s.MaxContent = 1000
	_, err := w.Write(t.Context(), []sink.Op{sinktest.Op("a", 1, "t", strings.Repeat("x", 2000))})
	if e, ok := errors.AsType[*sink.RequestError](err); !ok || e.Status != 413 {
		t.Fatalf("got %v, want 413", err)
	}
}

// Nothing leaves for a batch without a sendable op.
func TestNothingToSend(t *testing.T) {
	s, w := server(t)
	r, err := w.Write(t.Context(), []sink.Op{{ID: "", Doc: []byte("{}")}})
	if err != nil || r[0].Outcome != sink.Rejected || s.Bulks != 0 {
		t.Fatalf("got %+v, %v, %d bulks", r, err, s.Bulks)
	}
}

// Credentials are used and never printed.
func TestCredentials(t *testing.T) {
	s := estest.New()
	defer s.Close()
	var seen string
	s.Before = func(_ http.ResponseWriter, r *http.Request) bool {
		user, password, _ := r.BasicAuth()
		seen = user + ":" + password
		return false
	}
	a := admin(t, strings.Replace(s.URL(), "http://", "http://me:secret@", 1), nil)
	if err := a.Prepare(t.Context(), "crawl", index, true); err != nil || seen != "me:secret" {
		t.Fatalf("%v, saw %q", err, seen)
	}
	s.Close()
	if _, err := a.Count(t.Context(), index); err == nil || strings.Contains(err.Error(), "secret") {
		t.Fatalf("got %v", err)
	}
	for _, bad := range []string{"", "localhost:9200", "ftp://x", "http://", "http://user:secret@%zz"} {
		if _, err := elastic.New(elastic.Config{URL: bad}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("URL %q: %v", bad, err)
		}
	}
	keyed := estest.New()
	defer keyed.Close()
	keyed.Before = func(_ http.ResponseWriter, r *http.Request) bool {
		seen = r.Header.Get("Authorization")
		return false
	}
	k := admin(t, keyed.URL(), func(c *elastic.Config) { c.APIKey = "abc" })
	if err := k.Prepare(t.Context(), "crawl", index, false); err != nil || seen != "ApiKey abc" {
		t.Fatalf("%v, saw %q", err, seen)
	}
}

// A server over TLS with a login: the right credentials pass, all others are
// refused with what to check, and the password is in no error.
func TestSecurity(t *testing.T) {
	inner := estest.New()
	defer inner.Close()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if user != "ich" || password != "geheim" {
			if r.Header.Get("Authorization") != "ApiKey c2NobMO8c3NlbA==" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
		}
		inner.ServeHTTP(w, r)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	defer s.Close()
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	trust := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	for name, c := range map[string]struct {
		edit func(*elastic.Config)
		want string
	}{
		"login":   {func(c *elastic.Config) { c.TLS, c.Username, c.Password = trust, "ich", "geheim" }, ""},
		"api key": {func(c *elastic.Config) { c.TLS, c.APIKey = trust, "c2NobMO8c3NlbA==" }, ""},
		"in url": {func(c *elastic.Config) {
			c.TLS, c.URL = trust, strings.Replace(s.URL, "https://", "https://ich:geheim@", 1)
		}, ""},
		"wrong":    {func(c *elastic.Config) { c.TLS, c.Username, c.Password = trust, "ich", "geheim2" }, "check TRAWL_ELASTIC_USERNAME"},
		"nobody":   {func(c *elastic.Config) { c.TLS = trust }, "check TRAWL_ELASTIC_USERNAME"},
		"no CA":    {func(c *elastic.Config) { c.Username, c.Password = "ich", "geheim" }, "check TRAWL_ELASTIC_TLS_CA_FILE"},
		"no TLS":   {func(c *elastic.Config) { c.URL = strings.Replace(s.URL, "https", "http", 1) }, "status 400"},
		"only URL": {func(c *elastic.Config) { c.URL = strings.Replace(s.URL, "https://", "https://ich:geheim2@", 1) }, "check TRAWL_ELASTIC_TLS_CA_FILE"},
	} {
		a := admin(t, s.URL, c.edit)
		err := a.Prepare(t.Context(), "crawl", index, true)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "geheim")) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func BenchmarkWrite(b *testing.B) {
	s := estest.New()
	defer s.Close()
	s.Before = func(w http.ResponseWriter, r *http.Request) bool {
		items := strings.Repeat(`{"index":{"status":201}},`, 1000)
		_, _ = w.Write([]byte(`{"took":1,"errors":false,"items":[` + items[:len(items)-1] + `]}`))
		return true
	}
	a, err := elastic.New(elastic.Config{URL: s.URL()})
	if err != nil {
		b.Fatal(err)
	}
	defer a.Close()
	w, _ := a.Open(b.Context(), index)
	batch := make([]sink.Op, 1000)
	n := 0
	for i := range batch {
		batch[i] = sinktest.Op("https://example.org/"+strings.Repeat("x", i%50), int64(i), "title", strings.Repeat("lorem ipsum ", 400))
		n += len(batch[i].Doc)
	}
	b.SetBytes(int64(n))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := w.Write(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
}
