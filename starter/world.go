package main

import (
	"context"
	"os"
	"os/user"
	"time"

	"go.temporal.io/sdk/client"

	"trawl/internal/kafkalog"
	"trawl/internal/settings"
	"trawl/internal/sink"
	"trawl/internal/sink/elastic"
	"trawl/internal/sink/files"
	"trawl/internal/sink/sqlite"
	"trawl/internal/spec"
)

// searchTime bounds a request to the search server: somebody is waiting.
const searchTime = 15 * time.Second

// realWorld wires the servers of the environment.
func (a *app) realWorld(opts client.Options) world {
	return world{
		temporal: func(ctx context.Context) (temporalServer, error) { return dialTemporal(ctx, opts) },
		loads:    func(ctx context.Context) (loadServer, error) { return dialLoads(ctx, opts) },
		store: func(ctx context.Context) (store, error) {
			return openStore(ctx, kafkaConfig(a.set), a.set.TopicPrefix)
		},
		sink: a.realSink,
		errors: func(ctx context.Context) (errorTopics, error) {
			st, err := a.world.store(ctx)
			if err != nil {
				return nil, err
			}
			return kafkaErrors{st.(*kafkaStore)}, nil
		},
		redrives: func(ctx context.Context) (redriveServer, error) {
			t, err := dialTemporal(ctx, opts)
			if err != nil {
				return nil, err
			}
			return t.(*temporalClient), nil
		},
		operator: operator,
		now:      time.Now,
		after:    time.After,
	}
}

// operator is who gives an order, user@host as far as that is known.
func operator() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		return name
	}
	return name + "@" + host
}

// realSink gives the admin of a kind of sink.
func (a *app) realSink(kind string) (sink.Admin, error) {
	switch kind {
	case spec.SinkSQLite:
		return sqlite.New(a.set.DataDir), nil
	case spec.SinkFiles:
		return files.New(a.set.DataDir), nil
	case spec.SinkElastic:
		if a.set.ElasticURL == "" {
			return nil, fail(exitUsage, "the crawl is in Elasticsearch: set %s to its address", settings.ElasticURL)
		}
		return elastic.New(elasticConfig(a.set))
	}
	return nil, fail(exitUsage, "the crawl has the sink %q: there is nothing to search", kind)
}

func kafkaConfig(s settings.Settings) kafkalog.Config {
	return kafkalog.Config{
		Brokers: s.KafkaBrokers, ClientID: "trawl-starter", TLS: s.KafkaTLS.Config(),
		Login: kafkalog.Login{Mechanism: s.KafkaSASL, Username: s.KafkaUsername, Password: s.KafkaPassword.Reveal()},
	}
}

func elasticConfig(s settings.Settings) elastic.Config {
	return elastic.Config{
		URL: s.ElasticURL.Reveal(), TLS: s.ElasticTLS.Config(), Username: s.ElasticUsername,
		Password: s.ElasticPassword.Reveal(), APIKey: s.ElasticAPIKey.Reveal(), Timeout: searchTime,
	}
}
