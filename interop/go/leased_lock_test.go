package interop

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/Azure/iot-operations-sdks/go/services/leasedlock"
	"github.com/Azure/iot-operations-sdks/go/services/statestore"
	"github.com/Azure/iot-operations-sdks/go/services/statestore/errors"
	"github.com/stretchr/testify/require"
)

func TestALeaseIsHeldObservedAndReleased(t *testing.T) {
	ctx, address, name := within(t), shared(t), key(t)
	holder, observer := store(t, address), store(t, address)
	observed := leasedlock.NewLease(observer, name)
	changes, done := observed.Observe()
	defer done()
	require.NoError(t, observed.ObserveStart(ctx))

	lease := leasedlock.NewLease(holder, name)
	_, held, err := lease.Holder(ctx)
	require.NoError(t, err)
	require.False(t, held)
	ok, err := lease.Acquire(ctx, 30*time.Second)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, leasedlock.Change{Held: true, Holder: holder.ID()}, next(t, changes))
	who, held, err := observed.Holder(ctx)
	require.NoError(t, err)
	require.True(t, held)
	require.Equal(t, holder.ID(), who)

	ok, err = leasedlock.NewLease(observer, name).Acquire(ctx, 30*time.Second)
	require.NoError(t, err)
	require.False(t, ok, "another client has it")

	require.NoError(t, lease.Release(ctx))
	require.False(t, next(t, changes).Held)
	require.NoError(t, observed.ObserveStop(ctx))
}

func TestTokensOfALeaseRise(t *testing.T) {
	ctx := within(t)
	lease := leasedlock.NewLease(store(t, shared(t)), key(t), leasedlock.WithSessionID("session"))
	ok, err := lease.Acquire(ctx, 30*time.Second)
	require.NoError(t, err)
	require.True(t, ok)
	first, err := lease.Token(ctx)
	require.NoError(t, err)
	for range 20 {
		ok, err = lease.Acquire(ctx, 30*time.Second)
		require.NoError(t, err)
		require.True(t, ok, "the holder renews it")
		second, err := lease.Token(ctx)
		require.NoError(t, err)
		require.Equal(t, -1, first.Compare(second))
		first = second
	}
}

func TestATokenProtectsAKey(t *testing.T) {
	ctx, client, name := within(t), store(t, shared(t)), key(t)
	outdated, err := app.GetHLC()
	require.NoError(t, err)
	lease := leasedlock.NewLease(client, key(t))
	ok, err := lease.Acquire(ctx, 30*time.Second)
	require.NoError(t, err)
	require.True(t, ok)
	token, err := lease.Token(ctx)
	require.NoError(t, err)

	_, err = client.Set(ctx, name, "value", statestore.WithFencingToken(token))
	require.NoError(t, err)
	_, err = client.Set(ctx, name, "other", statestore.WithFencingToken(outdated))
	require.Equal(t, errors.FencingTokenLowerVersion, err)
	_, err = client.Del(ctx, name, statestore.WithFencingToken(outdated))
	require.Equal(t, errors.FencingTokenLowerVersion, err)
	del, err := client.Del(ctx, name, statestore.WithFencingToken(token))
	require.NoError(t, err)
	require.Equal(t, 1, del.Value)
}

func TestALockIsWaitedForUntilItIsReleasedOrExpires(t *testing.T) {
	ctx, address := within(t), shared(t)
	for _, ends := range []string{"released", "expires"} {
		t.Run(ends, func(t *testing.T) {
			name := key(t)
			first := leasedlock.NewLock(store(t, address), name)
			second := leasedlock.NewLock(store(t, address), name)
			lease := 30 * time.Second
			if ends == "expires" {
				lease = 500 * time.Millisecond
			}
			require.NoError(t, first.Lock(ctx, lease))
			older, err := first.Token(ctx)
			require.NoError(t, err)
			got := make(chan error, 1)
			go func() { got <- second.Lock(ctx, 30*time.Second) }()
			if ends == "released" {
				require.NoError(t, first.Unlock(ctx))
			}
			require.NoError(t, next(t, got))
			newer, err := second.Token(ctx)
			require.NoError(t, err)
			require.Equal(t, -1, older.Compare(newer))
		})
	}
}

func TestALockThatIsNotToBeHadEndsWithTheTimeout(t *testing.T) {
	ctx, address, name, guarded := within(t), shared(t), key(t), key(t)
	holder := store(t, address)
	require.NoError(t, leasedlock.NewLock(holder, name).Lock(ctx, 5*time.Minute))
	_, err := holder.Set(ctx, guarded, "before")
	require.NoError(t, err)
	err = leasedlock.NewLock(store(t, address), name).Edit(ctx, guarded, time.Second,
		func(context.Context, string, bool) (string, bool, error) { return "after", true, nil },
		leasedlock.WithTimeout(time.Second))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	get, err := holder.Get(ctx, guarded)
	require.NoError(t, err)
	require.Equal(t, "before", get.Value)
}

// Each edit reads the number, and writes the next one under the lock: none may be lost.
func TestEditsDoNotOvertakeEachOther(t *testing.T) {
	ctx, address := within(t), shared(t)
	countUnderALock(ctx, t, 4, 5, func() *storeClient { return store(t, address) }, func() {})
}

// countUnderALock lets clients count a key up together, each so many times, and holds the sum against that.
func countUnderALock(ctx context.Context, t *testing.T, clients, times int, connect func() *storeClient, happened func()) {
	name, counted := key(t), key(t)
	var all sync.WaitGroup
	for range clients {
		lock := leasedlock.NewLock(connect(), name)
		all.Go(func() {
			for range times {
				err := lock.Edit(ctx, counted, 10*time.Second, func(_ context.Context, value string, there bool) (string, bool, error) {
					happened()
					number, err := strconv.Atoi(value)
					if there && err != nil {
						return "", false, err
					}
					return fmt.Sprint(number + 1), true, nil
				}, leasedlock.WithTimeout(patience))
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	get, err := connect().Get(ctx, counted)
	require.NoError(t, err)
	require.Equal(t, fmt.Sprint(clients*times), get.Value)
}

func TestALeaseIsRenewedByItself(t *testing.T) {
	ctx, address, name := within(t), shared(t), key(t)
	observer := store(t, address)
	changes, done := observer.Notify(name)
	defer done()
	require.NoError(t, observer.KeyNotify(ctx, name))
	holder := session(t, address)
	lease := leasedlock.NewLease(storeOver(t, holder), name)
	ok, err := lease.Acquire(ctx, 2*time.Second, leasedlock.WithRenew(200*time.Millisecond))
	require.NoError(t, err)
	require.True(t, ok)
	// Longer than the lease lasts without renewal.
	for range 12 {
		require.Equal(t, "SET", next(t, changes).Operation)
	}
	require.NoError(t, holder.Stop())
	for next(t, changes).Operation != "DELETE" {
	}
}
