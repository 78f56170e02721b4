package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.uber.org/goleak"

	"trawl/activities"
	"trawl/workflows"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestHelpNamesEveryVariable(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"--help"}, nil, &out, io.Discard))
	for _, name := range []string{"TEMPORAL_ADDRESS", "TRAWL_KAFKA_BROKERS", "TRAWL_DATA_DIR", "TRAWL_HTTP_ADDR"} {
		require.Contains(t, out.String(), name)
	}
}

func TestMisspeltVariableIsRefused(t *testing.T) {
	err := run(t.Context(), []string{}, []string{"TRAWL_HTPP_ADDR=x"}, io.Discard, io.Discard)
	require.ErrorContains(t, err, "TRAWL_HTPP_ADDR")
}

// Two workers on a host: the second takes the next port, unless the port was
// asked for by name.
func TestTakenPort(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	_, err = listen(taken.Addr().String(), true)
	require.ErrorContains(t, err, taken.Addr().String())
	h, err := listen(taken.Addr().String(), false)
	require.NoError(t, err)
	defer h.close()
	require.NotEqual(t, taken.Addr().String(), h.ln.Addr().String())
}

func TestReadyFollowsTheDrain(t *testing.T) {
	h, err := listen("127.0.0.1:0", true)
	require.NoError(t, err)
	defer h.close()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	status := func(path string) int {
		r, err := client.Get(h.url() + path)
		require.NoError(t, err)
		defer r.Body.Close()
		return r.StatusCode
	}
	require.Equal(t, http.StatusOK, status("/healthz"))
	require.Equal(t, http.StatusServiceUnavailable, status("/readyz"))
	h.ready.Store(true)
	require.Equal(t, http.StatusOK, status("/readyz"))
	require.Equal(t, http.StatusOK, status("/metrics"))
}

// What touches the index of a data directory comes by its queue.
func TestQueueOfTheDataDirectoryHasAllThatTouchesTheIndex(t *testing.T) {
	tc, err := client.NewLazyClient(client.Options{HostPort: "127.0.0.1:1"})
	require.NoError(t, err)
	defer tc.Close()
	w := dataWorker(tc, activities.New(activities.Config{}), workflows.DataQueue("id"))
	for _, name := range []string{workflows.ActLoad, workflows.ActRedrive, workflows.ActFinalize} {
		again := func() { register(w, map[string]any{name: func() error { return nil }}) }
		require.Panics(t, again, "%s was not registered", name)
	}
}

func TestDataDirectoryHasOneIdForAllWorkers(t *testing.T) {
	dir := t.TempDir() + "/data"
	ids := make([]string, 8)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			id, err := dataDirID(dir)
			if err == nil {
				ids[i] = id
			}
		})
	}
	wg.Wait()
	for _, id := range ids {
		require.NotEmpty(t, id)
		require.Equal(t, ids[0], id)
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "no leftovers")
}

// A worker waits for servers that are not up, says which, and a signal ends it.
func TestWaitsForServersAndSaysSo(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, []string{}, []string{
			"TEMPORAL_ADDRESS=127.0.0.1:1", "TRAWL_KAFKA_BROKERS=127.0.0.1:1", "TRAWL_HTTP_ADDR=127.0.0.1:0",
			"TRAWL_DATA_DIR=" + t.TempDir(), "HOME=" + t.TempDir(),
		}, io.Discard, w)
		_ = w.Close()
	}()
	var said strings.Builder
	buf := make([]byte, 4096)
	for !strings.Contains(said.String(), "waiting for Temporal at 127.0.0.1:1") {
		n, err := r.Read(buf)
		require.NoError(t, err, said.String())
		said.Write(buf[:n])
	}
	require.Contains(t, said.String(), "make up")
	cancel()
	go func() { _, _ = io.Copy(io.Discard, r) }()
	require.NoError(t, <-done)
}
