package fetch

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/net/dns/dnsmessage"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPolicy(t *testing.T) {
	for address, public := range map[string]bool{
		"93.184.216.34": true, "8.8.8.8": true, "2606:2800:220:1:248:1893:25c8:1946": true, "172.15.255.255": true, "172.32.0.0": true,
		"100.63.255.255": true, "100.128.0.0": true, "198.17.255.255": true, "198.20.0.0": true, "223.255.255.255": true, "2001:200::1": true,
		"0.0.0.0": false, "0.1.2.3": false, "10.0.0.1": false, "100.64.0.1": false, "127.0.0.1": false, "127.255.255.255": false,
		"168.63.129.16": false, "169.254.169.254": false, "172.16.0.1": false, "172.31.255.255": false, "192.0.0.1": false, "192.0.2.1": false,
		"192.88.99.1": false, "192.168.1.1": false, "198.18.0.1": false, "198.19.255.255": false, "198.51.100.1": false, "203.0.113.1": false,
		"224.0.0.1": false, "239.1.1.1": false, "240.0.0.1": false, "255.255.255.255": false,
		"::": false, "::1": false, "::ffff:127.0.0.1": false, "::ffff:10.0.0.1": false, "::ffff:8.8.8.8": true, "::7f00:1": false,
		"64:ff9b::7f00:1": false, "64:ff9b::808:808": false, "64:ff9b:1::1": false, "100::1": false, "2001::1": false, "2001:db8::1": false,
		"2002:7f00:1::": false, "3fff::1": false, "4000::1": false, "5f00::1": false, "fc00::1": false, "fd12::1": false, "fe80::1": false,
		"fe80::1%eth0": false, "fec0::1": false, "ff02::1": false,
	} {
		err := Policy{}.Check(netip.MustParseAddr(address))
		if (err == nil) != public {
			t.Errorf("%s: %v, public %v", address, err, public)
		}
		var refused *AddressError
		if err != nil && (!errors.As(err, &refused) || !strings.Contains(err.Error(), "--allow-network "+refused.Network.String())) {
			t.Errorf("%s: error %v does not name the remedy", address, err)
		}
	}
}

func TestPolicyExceptions(t *testing.T) {
	p, err := NewPolicy([]string{"127.1.0.0/16", "::ffff:10.1.0.0/112", "fd00::/64"})
	if err != nil {
		t.Fatal(err)
	}
	for address, ok := range map[string]bool{
		"127.1.2.3": true, "::ffff:127.1.2.3": true, "127.0.0.1": false, "10.1.5.5": true, "10.2.0.1": false, "fd00::7": true, "fd00:0:0:1::7": false,
	} {
		if err := p.Check(netip.MustParseAddr(address)); (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		}
	}
	if _, err := NewPolicy([]string{"127.0.0.1"}); err == nil || !strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("no network: %v", err)
	}
}

// A mapped address is judged as the address that it is dialled as, and naming
// the refused network of the error allows it.
func TestPolicyProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a netip.Addr
		if rapid.Bool().Draw(t, "v4") {
			a = netip.AddrFrom4([4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "a")))
		} else {
			a = netip.AddrFrom16([16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "a")))
		}
		err := Policy{}.Check(a)
		if got := (Policy{}).Check(netip.AddrFrom16(a.As16())); (got == nil) != (err == nil) {
			t.Fatalf("%v: %v, mapped: %v", a, err, got)
		}
		var refused *AddressError
		if errors.As(err, &refused) {
			p, perr := NewPolicy([]string{refused.Network.String()})
			if perr != nil || p.Check(a) != nil {
				t.Fatalf("%v: %v does not allow it (%v)", a, refused.Network, perr)
			}
		} else if err == nil && (a.Unmap().IsPrivate() || a.Unmap().IsLoopback() || a.Unmap().IsLinkLocalUnicast() || a.Unmap().IsMulticast()) {
			t.Fatalf("%v is allowed", a)
		}
	})
}

// loopback makes a client that may dial the test servers.
func loopback(t *testing.T, o Options) *Client {
	t.Helper()
	p, err := NewPolicy([]string{"127.0.0.0/8", "::1/128"})
	if err != nil {
		t.Fatal(err)
	}
	o.Policy = p
	c := New(o)
	t.Cleanup(c.Close)
	return c
}

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func get(t *testing.T, c *Client, url string) *Result {
	t.Helper()
	res := c.Do(t.Context(), &Request{URL: url})
	t.Cleanup(res.Release)
	return res
}

func packed(b []byte) []byte {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, _ = w.Write(b)
	_ = w.Close()
	return z.Bytes()
}

func TestBodies(t *testing.T) {
	const limit = 1000
	long := strings.Repeat("0123456789", 200)
	bomb := packed(make([]byte, 50<<20))
	if len(bomb) < limit {
		t.Fatal("the bomb does not test the raw limit")
	}
	small := packed(make([]byte, 500_000)) // under the limit as it comes
	for _, c := range []struct {
		name, coding, body string
		plain, encoding    string
		cut                bool
		class              Class
	}{
		{name: "plain", body: "hello", plain: "hello"},
		{name: "empty", body: "", plain: ""},
		{name: "exactly the limit", body: long[:limit], plain: long[:limit]},
		{name: "longer", body: long, plain: long[:limit], cut: true},
		{name: "gzip", coding: "gzip", body: string(packed([]byte("hello"))), plain: "hello", encoding: "gzip"},
		{name: "gzip, longer", coding: "gzip", body: string(packed([]byte(long))), plain: long[:limit], cut: true},
		{name: "bomb", coding: "gzip", body: string(bomb), plain: string(make([]byte, limit)), cut: true},
		{name: "small bomb", coding: "gzip", body: string(small), plain: string(make([]byte, limit)), cut: true},
		{name: "coding is a lie", coding: "gzip", body: "hello", plain: "hello"},
		{name: "damaged", coding: "gzip", body: string(packed([]byte(long))[:20]), class: ClassProtocol},
		{name: "two members", coding: "gzip", body: string(packed([]byte("hel"))) + string(packed([]byte("lo"))), plain: "hello", encoding: "gzip"},
		{name: "garbage behind", coding: "gzip", body: string(packed([]byte("hello"))) + "\n\n--", plain: "hello", encoding: "gzip"},
		{name: "another coding", coding: "br", body: "xyz", encoding: "br"},
	} {
		t.Run(c.name, func(t *testing.T) {
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Accept-Encoding") != "gzip" {
					t.Errorf("Accept-Encoding %q", r.Header.Get("Accept-Encoding"))
				}
				if c.coding != "" {
					w.Header().Set("Content-Encoding", c.coding)
				}
				_, _ = io.WriteString(w, c.body)
			})
			res := get(t, loopback(t, Options{PageSize: limit}), url)
			if res.Class != c.class || res.Class == "" && res.Err != nil {
				t.Fatalf("class %q: %v", res.Class, res.Err)
			}
			if c.class != "" {
				return
			}
			if string(res.Plain) != c.plain || res.Cut != c.cut || res.Encoding != c.encoding {
				t.Errorf("%d bytes, cut %v, encoding %q", len(res.Plain), res.Cut, res.Encoding)
			}
			if !c.cut && string(res.Body) != c.body {
				t.Errorf("the body is not as it came")
			}
		})
	}
}

// raw serves hand-written bytes.
func raw(t *testing.T, talk func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = conn.Read(make([]byte, 4096))
				talk(conn)
			}()
		}
	}()
	return "http://" + l.Addr().String() + "/"
}

func TestHostilePeers(t *testing.T) {
	drip := func(first string) func(net.Conn) {
		return func(c net.Conn) {
			_, err := io.WriteString(c, first)
			for err == nil {
				<-time.After(5 * time.Millisecond)
				_, err = io.WriteString(c, "x")
			}
		}
	}
	say := func(s string) func(net.Conn) { return func(c net.Conn) { _, _ = io.WriteString(c, s) } }
	quick := Options{Total: 10 * time.Second, Headers: time.Second, Window: 500 * time.Millisecond, MinRate: 10_000}
	for _, c := range []struct {
		name  string
		talk  func(net.Conn)
		opts  Options
		class Class
	}{
		{"closes at once", func(net.Conn) {}, quick, ClassReset},
		{"no headers", func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, quick, ClassTimeout},
		{"drips headers", drip("HTTP/1.1 200 OK\r\nX: "), quick, ClassTimeout},
		{"drips the body", drip("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"), quick, ClassSlow},
		{"stops in the body", func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nx")
			_, _ = io.Copy(io.Discard, c)
		}, quick, ClassSlow},
		{"drips for ever, fast enough", drip("HTTP/1.1 200 OK\r\n\r\n"), Options{Total: 2 * time.Second, Window: 500 * time.Millisecond, MinRate: 1}, ClassTimeout},
		{"breaks off", say("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello"), quick, ClassReset},
		{"no HTTP", say("SSH-2.0-OpenSSH_9.2\r\n\r\n"), quick, ClassProtocol},
		{"bad chunk", say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), quick, ClassProtocol},
		{"endless headers", say("HTTP/1.1 200 OK\r\n" + strings.Repeat("A: "+strings.Repeat("b", 1000)+"\r\n", 600) + "\r\n"), quick, ClassProtocol},
	} {
		t.Run(c.name, func(t *testing.T) {
			res := get(t, loopback(t, c.opts), raw(t, c.talk))
			if res.Class != c.class {
				t.Errorf("class %q, want %q: %v", res.Class, c.class, res.Err)
			}
		})
	}
}

func TestClasses(t *testing.T) {
	tlsSite := httptest.NewUnstartedServer(http.NotFoundHandler())
	tlsSite.Config.ErrorLog = log.New(io.Discard, "", 0)
	tlsSite.StartTLS()
	t.Cleanup(tlsSite.Close)
	plain := serve(t, http.NotFound)
	for _, c := range []struct {
		url   string
		class Class
	}{
		{"http://10.0.0.1/", ClassAddress},
		{"http://[::ffff:10.0.0.1]/", ClassAddress},
		{tlsSite.URL + "/", ClassTLS},
		{"https" + strings.TrimPrefix(plain, "http") + "/", ClassTLS},
		{"http://127.0.0.1:1/", ClassConnect},
		{"http://exa mple/", ClassURL},
	} {
		if res := get(t, loopback(t, Options{}), c.url); res.Class != c.class {
			t.Errorf("%s: class %q, want %q: %v", c.url, res.Class, c.class, res.Err)
		}
	}
}

// fakeDNS answers every question for an address with the next of answers, the
// last one for ever.
func fakeDNS(t *testing.T, asked *atomic.Int64, answers ...[4]byte) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		go func() {
			defer there.Close()
			size := make([]byte, 2)
			for {
				if _, err := io.ReadFull(there, size); err != nil {
					return
				}
				query := make([]byte, int(size[0])<<8|int(size[1]))
				if _, err := io.ReadFull(there, query); err != nil {
					return
				}
				var m dnsmessage.Message
				if err := m.Unpack(query); err != nil {
					t.Errorf("query: %v", err)
					return
				}
				m.Response, m.Additionals = true, nil
				if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
					n := min(int(asked.Add(1)), len(answers))
					m.Answers = []dnsmessage.Resource{{
						Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
						Body:   &dnsmessage.AResource{A: answers[n-1]},
					}}
				}
				b, err := m.Pack()
				if err != nil {
					t.Errorf("answer: %v", err)
					return
				}
				if _, err := there.Write(append([]byte{byte(len(b) >> 8), byte(len(b))}, b...)); err != nil {
					return
				}
			}
		}()
		return here, nil
	}}
}

// A name that resolves to an allowed address first and to a forbidden one on
// the next connection is refused then: what counts is the address dialled.
func TestRebinding(t *testing.T) {
	var hits atomic.Int64
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		hits.Add(1)
		w.Header().Set("Connection", "close")
	})
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(url, "http://"))
	policy, _ := NewPolicy([]string{"127.0.0.1/32"})
	var asked atomic.Int64
	c := New(Options{Policy: policy, Resolver: fakeDNS(t, &asked, [4]byte{127, 0, 0, 1}, [4]byte{127, 0, 0, 2})})
	defer c.Close()
	target := "http://rebind.test:" + port + "/"
	if res := get(t, c, target); res.Err != nil || hits.Load() != 1 {
		t.Fatalf("first: %v, %d hits", res.Err, hits.Load())
	}
	if res := get(t, c, target); res.Class != ClassAddress || hits.Load() != 1 {
		t.Errorf("second: class %q (%v), %d hits, %d lookups", res.Class, res.Err, hits.Load(), asked.Load())
	}
}

// A server that closes a reused connection makes net/http send again by
// itself. That must not happen: the caller decides, and keeps its delay.
func TestNoSilentResend(t *testing.T) {
	var requests atomic.Int64
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if n := requests.Add(1); n == 2 {
			panic(http.ErrAbortHandler) // closes without an answer
		}
	})
	c := loopback(t, Options{})
	var gates, sent atomic.Int64
	do := func() *Result {
		res := c.Do(t.Context(), &Request{URL: url, Gate: func() error { gates.Add(1); return nil }, Sent: func() { sent.Add(1) }})
		res.Release()
		return res
	}
	if res := do(); res.Err != nil {
		t.Fatal(res.Err)
	}
	if res := do(); !res.Resend || res.Class != ClassReset {
		t.Errorf("resend %v, class %q: %v", res.Resend, res.Class, res.Err)
	}
	if requests.Load() != 2 || gates.Load() != 2 || sent.Load() != 2 {
		t.Errorf("%d requests, gate asked %d times, sent %d: want 2 each", requests.Load(), gates.Load(), sent.Load())
	}
	if res := do(); res.Err != nil {
		t.Errorf("third: %v", res.Err)
	}
}

func TestGateStopsBeforeTheWire(t *testing.T) {
	var requests atomic.Int64
	url := serve(t, func(http.ResponseWriter, *http.Request) { requests.Add(1) })
	c := loopback(t, Options{})
	res := c.Do(t.Context(), &Request{URL: url, Gate: func() error { return errors.New("no beat") }})
	if res.Class != ClassAborted || requests.Load() != 0 || res.Sent {
		t.Errorf("class %q (%v), %d requests", res.Class, res.Err, requests.Load())
	}
}

func TestLifecycle(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("COLLY_USER_AGENT", "evil")
	t.Setenv("COLLY_DISALLOWED_DOMAINS", "127.0.0.1")
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.UserAgent() != "ours/1" || r.Header.Get("Cookie") != "" || r.Header.Get("If-None-Match") != `"x"` {
			t.Errorf("headers %v", r.Header)
		}
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
		w.Header().Set("Location", "http://[bad")
		w.WriteHeader(http.StatusFound)
	})
	c := loopback(t, Options{UserAgent: "ours/1"})
	for range 3 {
		res := c.Do(t.Context(), &Request{URL: url + "/x.xml.gz", ETag: `"x"`})
		if res.Err != nil || res.Status != 302 || res.Remote == nil {
			t.Errorf("%d %v", res.Status, res.Err)
		}
		res.Release()
		res.Release()
	}
	if c.Requests() != 3 {
		t.Errorf("%d requests through the collector", c.Requests())
	}
	if _, err := (&wire{c}).RoundTrip(httptest.NewRequest("GET", url, nil)); err == nil {
		t.Error("a request outside of Do went out")
	}
}

func TestAbort(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	leave := make(chan struct{})
	url := serve(t, func(http.ResponseWriter, *http.Request) { cancel(); <-leave })
	defer close(leave)
	if res := loopback(t, Options{}).Do(ctx, &Request{URL: url}); res.Class != ClassAborted {
		t.Errorf("class %q: %v", res.Class, res.Err)
	}
}

func TestUnwanted(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat("x", 1<<20)) })
	c := loopback(t, Options{})
	res := c.Do(t.Context(), &Request{URL: url, Want: func(int, http.Header) bool { return false }})
	if !res.Unwanted || res.Err != nil || res.Body != nil || res.Status != 200 {
		t.Errorf("%+v", res)
	}
}
