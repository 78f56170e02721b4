package main

import (
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"
)

func register(w worker.Worker, acts map[string]any) {
	for name, f := range acts {
		w.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	}
}
