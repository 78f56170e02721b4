package stack

import (
	"context"
	"fmt"
	"net/http"

	"github.com/temporalio/ui-server/v2/server"
	uiconfig "github.com/temporalio/ui-server/v2/server/config"
	"github.com/temporalio/ui-server/v2/server/server_options"
)

type webUI struct {
	url    string
	server *server.Server
	done   chan struct{}
}

// startUI begins to serve Temporal's Web UI. It asks nothing of the internet.
func startUI(ports *reservedPorts, temporalAddress string) *webUI {
	u := &webUI{
		url: "http://" + ports.ui.address(),
		server: server.NewServer(server_options.WithConfigProvider(&uiconfig.Config{
			TemporalGRPCAddress: temporalAddress,
			Host:                Host,
			Port:                ports.ui.port,
			EnableUI:            true,
			DefaultNamespace:    Namespace,
			DisableNewsFetch:    true,
			HideLogs:            true,
			// Plain HTTP on loopback: the browser sends no secure cookie.
			CORS: uiconfig.CORS{CookieInsecure: true},
		})),
		done: make(chan struct{}),
	}
	ports.ui.release()
	go func() {
		defer close(u.done)
		_ = u.server.Start() // nil after Stop; it ends the process itself when it cannot listen
	}()
	return u
}

// awaitReady returns once the Web UI answers.
func (u *webUI) awaitReady(ctx context.Context) error {
	err := retryUntil(ctx, func() error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.url+"/healthz", http.NoBody)
		if err != nil {
			return errPermanent{err}
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("status %s", resp.Status)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("the Web UI does not answer on %s: %w", u.url, err)
	}
	return nil
}

func (u *webUI) close() error {
	u.server.Stop()
	<-u.done
	return nil
}
