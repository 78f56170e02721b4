package settings

import (
	"fmt"
	"strings"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
)

// DefaultTemporal is the address without TEMPORAL_ADDRESS and profile.
const DefaultTemporal = "127.0.0.1:7233"

// Temporal reads the TEMPORAL_ variables, and the profile that they name, of
// an environment in the form of os.Environ.
func Temporal(environ []string) (client.Options, error) {
	opts, err := envconfig.LoadClientOptions(envconfig.LoadClientOptionsRequest{EnvLookup: Env(environ)})
	if err != nil {
		return client.Options{}, fmt.Errorf("read the TEMPORAL_ variables: %w", err)
	}
	if opts.HostPort == "" {
		opts.HostPort = DefaultTemporal
	}
	return opts, nil
}

// Env is an environment in the form of os.Environ. Later entries win.
type Env []string

// Environ gives all entries.
func (e Env) Environ() []string { return e }

// LookupEnv finds one variable.
func (e Env) LookupEnv(key string) (string, bool) {
	for i := len(e) - 1; i >= 0; i-- {
		if name, value, ok := strings.Cut(e[i], "="); ok && name == key {
			return value, true
		}
	}
	return "", false
}

// Get is the variable, or nothing; it fits Load.
func (e Env) Get(key string) string {
	v, _ := e.LookupEnv(key)
	return v
}
