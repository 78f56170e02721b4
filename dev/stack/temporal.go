package stack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/membership/static"
	sqliteplugin "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/temporal"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

const (
	// historyShards is fixed for the life of a database. They only spread locks:
	// all of them write through one connection.
	historyShards = 4
	// pollsPerSecond bounds how often a history shard looks for tasks.
	pollsPerSecond = 2000
	// stopTimeout bounds a clean stop of the server; what it acknowledged is
	// safe without one.
	stopTimeout = 20 * time.Second
	// probeEvery is the pause between two looks at a server that is coming up.
	probeEvery = 10 * time.Millisecond
)

type temporalServer struct {
	address string
	server  temporal.Server
}

func startTemporal(d *dataDir, ports *reservedPorts, logs *logFile) (*temporalServer, error) {
	cfg := temporalConfig(d, ports)
	// Setting it up already opens some of its listeners.
	for _, p := range []*reservedPort{&ports.temporal, &ports.history, &ports.matching, &ports.worker} {
		p.release()
	}
	server, err := temporal.NewServer(
		temporal.WithConfig(cfg),
		temporal.ForServices(temporal.DefaultServices),
		temporal.WithStaticHosts(map[primitives.ServiceName]static.Hosts{
			primitives.FrontendService: static.SingleLocalHost(ports.temporal.address()),
			primitives.HistoryService:  static.SingleLocalHost(ports.history.address()),
			primitives.MatchingService: static.SingleLocalHost(ports.matching.address()),
			primitives.WorkerService:   static.SingleLocalHost(ports.worker.address()),
		}),
		temporal.WithLogger(temporalLogger(logs)),
		temporal.WithAuthorizer(authorization.NewNoopAuthorizer()),
		temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper {
			return authorization.NewNoopClaimMapper()
		}),
		temporal.WithDynamicConfigClient(dynamicConfig()),
	)
	if err != nil {
		return nil, fmt.Errorf("set up the Temporal server: %w", err)
	}
	if err := server.Start(); err != nil {
		return nil, fmt.Errorf("start the Temporal server (its log is %s): %w", logs.name, err)
	}
	return &temporalServer{address: ports.temporal.address(), server: server}, nil
}

func temporalConfig(d *dataDir, ports *reservedPorts) *config.Config {
	service := func(p reservedPort) config.Service {
		return config.Service{RPC: config.RPC{GRPCPort: p.port, BindOnIP: Host}}
	}
	return &config.Config{
		Global: config.Global{Membership: config.Membership{
			MaxJoinDuration:  readyTimeout,
			BroadcastAddress: Host,
		}},
		Persistence: config.Persistence{
			DefaultStore:     sqliteplugin.PluginName,
			VisibilityStore:  sqliteplugin.PluginName,
			NumHistoryShards: historyShards,
			DataStores:       map[string]config.DataStore{sqliteplugin.PluginName: {SQL: sqlConfig(d)}},
		},
		ClusterMetadata: &cluster.Config{
			FailoverVersionIncrement: 10,
			MasterClusterName:        clusterName,
			CurrentClusterName:       clusterName,
			ClusterInformation: map[string]cluster.ClusterInformation{clusterName: {
				Enabled:                true,
				InitialFailoverVersion: 1,
				RPCAddress:             ports.temporal.address(),
			}},
		},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		Services: map[string]config.Service{
			string(primitives.FrontendService): service(ports.temporal),
			string(primitives.HistoryService):  service(ports.history),
			string(primitives.MatchingService): service(ports.matching),
			string(primitives.WorkerService):   service(ports.worker),
		},
		Archival: config.Archival{
			History:    config.HistoryArchival{State: "disabled"},
			Visibility: config.VisibilityArchival{State: "disabled"},
		},
		NamespaceDefaults: config.NamespaceDefaults{Archival: config.ArchivalNamespaceDefaults{
			History:    config.HistoryArchivalNamespaceDefaults{State: "disabled"},
			Visibility: config.VisibilityArchivalNamespaceDefaults{State: "disabled"},
		}},
		PublicClient: config.PublicClient{HostPort: ports.temporal.address()},
	}
}

// dynamicConfig of a server for one machine. A value of another type than the
// setting's (int64 for int) would be ignored with a line in the log. The limits
// of histories and payloads stay those of production, so that a workflow which
// breaks them breaks here.
func dynamicConfig() dynamicconfig.StaticClient {
	return dynamicconfig.StaticClient{
		// One partition: a task never waits for a poller that asks another one.
		dynamicconfig.MatchingNumTaskqueueReadPartitions.Key():  1,
		dynamicconfig.MatchingNumTaskqueueWritePartitions.Key(): 1,
		// By default a history shard looks for new tasks 20 times a second: with
		// all workflows of a crawl in four shards every step of a workflow would
		// wait up to 50 ms.
		dynamicconfig.TransferProcessorMaxPollRPS.Key(): pollsPerSecond,
		dynamicconfig.TimerProcessorMaxPollRPS.Key():    pollsPerSecond,
		// Clocks of several machines differ, one does not from itself: a timer
		// need not be a second late.
		dynamicconfig.TimerProcessorMaxTimeShift.Key(): 10 * time.Millisecond,
		// A search attribute can be used as soon as it is registered.
		dynamicconfig.ForceSearchAttributesCacheRefreshOnRead.Key(): true,
		// Asks a server on the internet for newer versions.
		dynamicconfig.EnableServerVersionCheck.Key(): false,
	}
}

// temporalLogger writes warnings and errors to the file. What the server calls
// fatal would end the process with the reason in the file only, so the reason
// is also said on standard error.
func temporalLogger(f *logFile) log.Logger {
	core := zapcore.NewCore(zapcore.NewJSONEncoder(log.DefaultZapEncoderConfig), zapcore.AddSync(f), zap.WarnLevel)
	return log.NewZapLogger(zap.New(core, zap.WithFatalHook(fatalHook{f.name})))
}

type fatalHook struct{ logName string }

func (h fatalHook) OnWrite(e *zapcore.CheckedEntry, fields []zapcore.Field) {
	enc := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(enc)
	}
	fmt.Fprintf(os.Stderr, "trawl-dev: the Temporal server gave up: %s: %v (see %s)\n", e.Message, enc.Fields["error"], h.logName)
	os.Exit(1)
}

// awaitReady returns once the server can start workflows in our namespace and
// all search attributes are registered.
func (t *temporalServer) awaitReady(ctx context.Context) error {
	c, err := client.NewLazyClient(client.Options{
		HostPort:  t.address,
		Namespace: Namespace,
		Logger:    sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)),
	})
	if err != nil {
		return fmt.Errorf("reach the Temporal server: %w", err)
	}
	defer c.Close()
	if err := retryUntil(ctx, func() error { return probeHistory(ctx, c) }); err != nil {
		return fmt.Errorf("the Temporal server does not answer on %s: %w", t.address, err)
	}
	if err := retryUntil(ctx, func() error { return registerAttributes(ctx, c.OperatorService()) }); err != nil {
		return fmt.Errorf("register search attributes: %w", err)
	}
	return nil
}

// probeHistory asks for a workflow that does not exist: only the history
// service can tell that.
func probeHistory(ctx context.Context, c client.Client) error {
	_, err := c.DescribeWorkflowExecution(ctx, "trawl-dev/probe", "")
	var notFound *serviceerror.NotFound
	if err == nil || errors.As(err, &notFound) {
		return nil
	}
	return err
}

// registerAttributes adds what the namespace does not have. A fresh one has
// them all from its creation.
func registerAttributes(ctx context.Context, op operatorservice.OperatorServiceClient) error {
	have, err := op.ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: Namespace})
	if err != nil {
		return err
	}
	missing := make(map[string]enumspb.IndexedValueType)
	for name, want := range SearchAttributes() {
		got, ok := have.GetCustomAttributes()[name]
		switch {
		case !ok:
			missing[name] = want
		case got != want:
			return errPermanent{fmt.Errorf("%s is registered as %s and must be %s: move the data directory away and start anew", name, got, want)}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	_, err = op.AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
		Namespace:        Namespace,
		SearchAttributes: missing,
	})
	return err
}

// close stops the server, or gives up waiting for it after stopTimeout.
func (t *temporalServer) close() error {
	done := make(chan error, 1)
	go func() { done <- t.server.Stop() }()
	select {
	case err := <-done:
		return err
	case <-time.After(stopTimeout):
		return fmt.Errorf("did not stop in %s; what it acknowledged is safe", stopTimeout)
	}
}

// errPermanent ends retryUntil.
type errPermanent struct{ error }

// retryUntil repeats try until it succeeds, fails for good, or ctx ends; it
// then returns the last failure.
func retryUntil(ctx context.Context, try func() error) error {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		err := try()
		var permanent errPermanent
		switch {
		case err == nil:
			return nil
		case errors.As(err, &permanent):
			return permanent.error
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-tick.C:
		}
	}
}
