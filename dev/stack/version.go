package stack

import (
	"fmt"

	"go.temporal.io/server/common/headers"
)

// Versions that decide whether a data directory can be read.
const (
	// TemporalVersion of the server in this program.
	TemporalVersion = headers.ServerVersion
	// BrokerVersion is the version of the broker's module, github.com/twmb/franz-go/pkg/kfake.
	BrokerVersion = "v0.0.0-20260918054303-01f206a7e32c"
)

// Version of the stack, in one line, as the VERSION file of a data directory says it.
func Version() string {
	return fmt.Sprintf("temporal %s, kfake %s", TemporalVersion, BrokerVersion)
}
