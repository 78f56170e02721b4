package main

import (
	"testing"
	"testing/synctest"

	"go.temporal.io/api/serviceerror"
)

// A server that goes away while somebody watches is waited for.
func TestWaitSitsOutAServerThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		c := &fakeClient{result: func(any) error {
			if calls++; calls < 100 {
				return serviceerror.NewUnavailable("connection refused")
			}
			return nil
		}}
		state, _, err := server(c).Wait(t.Context(), "x", "r")
		if err != nil || state != stateCompleted || calls != 100 {
			t.Errorf("%s after %d calls: %v", state, calls, err)
		}
	})
}
