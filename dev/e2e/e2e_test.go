// Package e2e crawls the computable web with the real programs on the embedded
// stack, and stops, kills and restarts them in the middle. What a crawl did is
// judged by the log of the web: which pages were requested, how often and when.
//
// Each test has a stack, a data directory and a web of its own. Tests wait for
// conditions, never for a time to pass, but where the claim is that nothing
// happens for a while.
package e2e

import (
	"os"
	"testing"

	"trawl/dev/e2e/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }
