package activities

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/temporal"
)

func TestFenceFallsHalfATimeoutAfterTheLastAcknowledgedBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ok atomic.Bool
		ok.Store(true)
		f := newFence(20*time.Second, func(context.Context) error {
			if ok.Load() {
				return nil
			}
			return errors.New("no network")
		}, func() {})
		require.Error(t, f.MaySend(), "before the first acknowledged beat")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		f.first(ctx)
		go f.run(ctx, 3*time.Second)
		require.NoError(t, f.MaySend())
		ok.Store(false)
		time.Sleep(9 * time.Second)
		require.NoError(t, f.MaySend())
		time.Sleep(2 * time.Second)
		require.Error(t, f.MaySend())
		ok.Store(true)
		time.Sleep(10 * time.Second)
		require.Error(t, f.MaySend(), "a fallen fence does not rise")
		cancel()
		synctest.Wait()
	})
}

func TestFenceCountsTheWallClockOfASuspendedMachine(t *testing.T) {
	f := newFence(20*time.Second, func(context.Context) error { return nil }, func() {})
	f.beat(t.Context())
	require.NoError(t, f.MaySend())
	f.wall = func() time.Time { return time.Now().Add(time.Minute).Round(0) }
	require.Error(t, f.MaySend())
}

func TestFenceDrainsOnCancelAndFallsWhenTheActivityIsGone(t *testing.T) {
	drained := 0
	err := temporal.NewCanceledError()
	f := newFence(20*time.Second, func(context.Context) error { return err }, func() { drained++ })
	f.beat(t.Context())
	require.Equal(t, 1, drained)
	require.NoError(t, f.MaySend(), "running requests may finish")
	err = serviceerror.NewNotFound("activity")
	f.beat(t.Context())
	require.Error(t, f.MaySend())
	select {
	case <-f.Fallen():
	default:
		t.Fatal("the fence must have fallen")
	}
}
