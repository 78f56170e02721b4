package main

import (
	_ "github.com/temporalio/ui-server/v2/server"
	_ "github.com/twmb/franz-go/pkg/kfake"
	_ "go.temporal.io/server/schema/sqlite"
	_ "go.temporal.io/server/temporal"
)

func main() {}
