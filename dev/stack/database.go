package stack

import (
	"fmt"
	"strings"

	"go.temporal.io/server/common/config"
	sqliteplugin "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/schema/sqlite"
	"google.golang.org/protobuf/types/known/durationpb"
)

// clusterName is Temporal's name for itself; it is written into the database.
const clusterName = "active"

// sqlConfig of the Temporal server. Every part of the server opens its
// database with it, and the plugin shares one handle between equal
// configurations, so MaxConns 1 holds for the whole process: a second
// connection would answer SQLITE_BUSY.
//
// The plugin takes an attribute that it does not know for a pragma, so pragmas
// are given without a prefix. WAL and NORMAL together write through to the
// operating system at each commit and sync at checkpoints: a killed process
// loses nothing, a power failure at most the last moments, never consistency.
func sqlConfig(d *dataDir) *config.SQL {
	return &config.SQL{
		PluginName:   sqliteplugin.PluginName,
		DatabaseName: uriPath(d.database()),
		MaxConns:     1,
		MaxIdleConns: 1,
		ConnectAttributes: map[string]string{
			"mode":         "rwc",
			"journal_mode": "wal",
			"synchronous":  "NORMAL",
		},
	}
}

// uriPath escapes what would end the path of an SQLite "file:" address.
func uriPath(path string) string {
	return strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(path)
}

// prepareDatabase sets up a fresh data directory and commits it. A directory
// that is set up already is left alone.
func prepareDatabase(d *dataDir) error {
	if !d.fresh {
		return nil
	}
	if err := d.clear(); err != nil {
		return err
	}
	cfg := sqlConfig(d)
	if err := sqlite.SetupSchema(cfg); err != nil {
		return fmt.Errorf("set up Temporal's database %s: %w", d.database(), err)
	}
	ns, err := sqlite.NewNamespaceConfig(clusterName, Namespace, false, SearchAttributes())
	if err != nil {
		return fmt.Errorf("configure namespace %s: %w", Namespace, err)
	}
	ns.Detail.Config.Retention = durationpb.New(Retention)
	if err := sqlite.CreateNamespaces(cfg, ns); err != nil {
		return fmt.Errorf("create namespace %s: %w", Namespace, err)
	}
	// VERSION must not outlive a power failure that the schema does not.
	for _, name := range []string{d.database(), d.database() + "-wal", d.path} {
		if err := syncPath(name); err != nil {
			return fmt.Errorf("sync Temporal's database: %w", err)
		}
	}
	return d.commit()
}
