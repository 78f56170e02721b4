package batch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"trawl/internal/fetch"
	"trawl/internal/frontier"
)

// Outcomes of dials, as the net package gives them.
var (
	errSilent  = &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
	errNoRoute = &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ENETUNREACH)}
	errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	errNoName  = &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "x.test", IsNotFound: true}}
	errNoDNS   = &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "server misbehaving", Name: "x.test", IsTemporary: true}}
	errPolicy  = &net.OpError{Op: "dial", Net: "tcp", Err: &fetch.AddressError{Address: netip.MustParseAddr("127.0.0.1")}}
	errOurs    = &net.OpError{Op: "dial", Net: "tcp", Err: context.Canceled}
)

// blamed gives the verdict on a failure, and how long it took.
func blamed(n *network) (bool, time.Duration) {
	start := time.Now()
	return n.blames(context.Background()), time.Since(start)
}

func TestNetworkVerdicts(t *testing.T) {
	const known, other = "known.test:80", "other.test:80"
	type dial struct {
		at      time.Duration
		address string
		err     error
	}
	for _, c := range []struct {
		name  string
		dials []dial
		site  bool
		wait  time.Duration
	}{
		{"never answered", []dial{{0, other, errSilent}, {40 * time.Second, other, errNoRoute}}, true, 0},
		{"a known host too", []dial{{0, other, errSilent}, {40 * time.Second, known, errSilent}}, false, 0},
		{"a known host alone", []dial{{0, known, errNoDNS}}, false, silentFor},
		{"some doubt so far", []dial{{0, known, errNoRoute}, {10 * time.Second, other, errSilent}}, false, silentFor - 10*time.Second},
		{"refused since", []dial{{0, known, errSilent}, {time.Second, other, errRefused}}, true, 0},
		{"no such name since", []dial{{0, known, errSilent}, {time.Second, other, errNoName}}, true, 0},
		{"accepted since", []dial{{0, known, errSilent}, {time.Second, other, nil}}, true, 0},
		{"our own doing tells nothing", []dial{{0, known, errSilent}, {time.Second, other, errPolicy}, {2 * time.Second, other, errOurs}}, false, silentFor - 2*time.Second},
		{"answered too long ago", []dial{{knownFor, known, errSilent}, {knownFor + time.Minute, known, errSilent}}, true, 0},
		{"accepted after the loss", []dial{{0, known, errSilent}, {time.Minute, known, errSilent}, {2 * time.Minute, other, nil}}, true, 0},
		{"refused after the loss", []dial{{0, known, errSilent}, {time.Minute, known, errSilent}, {2 * time.Minute, other, errRefused}}, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork()
				start := time.Now()
				n.dialed(known, nil)
				for _, d := range c.dials {
					time.Sleep(time.Until(start.Add(d.at)))
					n.dialed(d.address, d.err)
				}
				if site, wait := blamed(n); site != c.site || wait != c.wait {
					t.Errorf("the site's: %v after %v, want %v after %v", site, wait, c.site, c.wait)
				}
			})
		})
	}
}

// A failure in doubt waits for the next reply; the end of the batch leaves it
// unsaid.
func TestNetworkDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.dialed("a.test:80", nil)
		n.dialed("a.test:80", errSilent)
		ctx, cancel := context.WithCancel(context.Background())
		verdict := make(chan bool)
		go func() { verdict <- n.blames(ctx) }()
		synctest.Wait()
		cancel()
		if <-verdict {
			t.Error("said although the batch ended in doubt")
		}
		go func() { verdict <- n.blames(context.Background()) }()
		synctest.Wait()
		n.replied()
		if !<-verdict {
			t.Error("not said after a reply")
		}
	})
}

// While the network is lost one request passes now and then; all do when
// something replies, or after an hour.
func TestNetworkLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		lose := func() {
			n.dialed("a.test:80", nil)
			n.dialed("a.test:80", errSilent)
			time.Sleep(silentFor)
			if !n.isLost() {
				t.Fatal("not lost")
			}
		}
		lose()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		passed := 0
		for n.pass(ctx) {
			n.dialed("a.test:80", errSilent)
			passed++
		}
		if want := int(time.Minute / probeEvery); passed < want-1 || passed > want+1 {
			t.Errorf("%d probes in a minute, want %d", passed, want)
		}
		all := make(chan bool)
		for range 5 {
			go func() { all <- n.pass(context.Background()) }()
		}
		synctest.Wait()
		start := time.Now()
		n.dialed("b.test:80", nil)
		for range 5 {
			<-all
		}
		if n.isLost() || time.Since(start) > 0 {
			t.Error("requests wait although a dial was accepted")
		}
		lose()
		time.Sleep(lostMost)
		if site, wait := blamed(n); !site || wait > 0 || n.isLost() {
			t.Errorf("lost for ever: %v after %v", site, wait)
		}
		n.dialed("a.test:80", errSilent)
		if site, wait := blamed(n); !site || wait > 0 {
			t.Error("lost again without an answer in between")
		}
	})
}

func TestNetworkIsBounded(t *testing.T) {
	n := newNetwork()
	for i := range 2 * maxAddresses {
		n.dialed(fmt.Sprintf("%d.test:80", i), nil)
	}
	if len(n.answered) > maxAddresses {
		t.Errorf("%d addresses", len(n.answered))
	}
}

// A batch on a lost network states nothing and fails, also where robots.txt
// comes first; a host that never answered just fails.
func TestLostNetwork(t *testing.T) {
	for _, c := range []struct {
		known, robots bool
	}{{true, false}, {true, true}, {false, false}, {false, true}} {
		t.Run(fmt.Sprintf("known=%v,robots=%v", c.known, c.robots), func(t *testing.T) {
			s := newSite(t, func(http.ResponseWriter, *http.Request) {})
			u := newSetup(t, s, "/1", "/2", "/3", "/4", "/5", "/6")
			u.spec.Seeds.URLs = []string{"http://site.test/"}
			u.spec.Politeness.Robots = c.robots
			u.spec.Limits.HostErrors = 2
			u.host().Host, u.host().Parallelism = "site.test", 1
			u.job.Batch.TimeBox = time.Second
			u.options.Resolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
				return nil, errNoRoute
			}}
			u.prepare()
			u.runner.net.silent = time.Now().Add(-silentFor)
			if c.known {
				u.runner.net.answered["site.test:80"] = time.Now()
			}
			_, err := u.runner.Run(t.Context(), u.job)
			if c.known {
				if e := u.log.all(); len(e) != 0 || !errors.Is(err, errNetwork) {
					t.Errorf("stated %+v, error %v", e, err)
				}
				if n := u.job.Plan.Client().Requests(); n != 1 {
					t.Errorf("%d requests on a lost network, want one", n)
				}
				return
			}
			failed := len(facts[frontier.Tried](u.log)) + len(facts[frontier.Blocked](u.log))
			if err != nil || failed == 0 {
				t.Errorf("error %v, %d failures stated", err, failed)
			}
			for _, f := range facts[frontier.Tried](u.log) {
				if f.Class != "dns" || !strings.HasPrefix(f.URL, "http://site.test/") {
					t.Errorf("%+v", f)
				}
			}
		})
	}
}

// Dials of a plan reach the runner, and so do answers over connections that
// are older than the doubt.
func TestRepliesAreWatched(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, _ *http.Request) { serveHTML(w, "x") })
	u := newSetup(t, s, "/1")
	u.prepare()
	for i := range 2 {
		if _, err := u.runner.Run(t.Context(), u.job); err != nil {
			t.Fatal(err)
		}
		n := u.runner.net
		if _, ok := n.answered[s.host]; ok != (i == 0) || n.missed {
			t.Errorf("run %d: answered %v, missed %v", i, n.answered, n.missed)
		}
		clear(n.answered)
		n.silent, n.missed = time.Now(), true
	}
}
