package interop

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/iot-operations-sdks/go/mqtt"
	"github.com/Azure/iot-operations-sdks/go/protocol/hlc"
	"github.com/Azure/iot-operations-sdks/go/services/statestore"
	"github.com/Azure/iot-operations-sdks/go/services/statestore/errors"
	"github.com/stretchr/testify/require"
)

func TestAKeyIsSetReadAndDeleted(t *testing.T) {
	ctx, client, name := within(t), store(t, shared(t)), key(t)
	set, err := client.Set(ctx, name, "value")
	require.NoError(t, err)
	require.True(t, set.Value)
	require.False(t, set.Version.IsZero())

	get, err := client.Get(ctx, name)
	require.NoError(t, err)
	require.Equal(t, "value", get.Value)
	require.Zero(t, get.Version.Compare(set.Version))

	del, err := client.Del(ctx, name)
	require.NoError(t, err)
	require.Equal(t, 1, del.Value)
	del, err = client.Del(ctx, name)
	require.NoError(t, err)
	require.Equal(t, 0, del.Value)

	get, err = client.Get(ctx, name)
	require.NoError(t, err)
	require.Empty(t, get.Value)
	require.True(t, get.Version.IsZero(), "that is how this client tells that there is none")
}

func TestAnEmptyValueIsNotAMissingKey(t *testing.T) {
	ctx, client, name := within(t), store(t, shared(t)), key(t)
	_, err := client.Set(ctx, name, "")
	require.NoError(t, err)
	get, err := client.Get(ctx, name)
	require.NoError(t, err)
	require.Empty(t, get.Value)
	require.False(t, get.Version.IsZero())
	_, err = client.Set(ctx, "", "")
	require.ErrorIs(t, err, statestore.ErrArgument)
}

func TestKeysAndValuesAreAnyBytes(t *testing.T) {
	ctx, client := within(t), store(t, shared(t))
	name, value := key(t)+"\x00\xff\r\n/+#", "\r\n$-1\r\n\x00"+strings.Repeat("\xfe", 1<<20)
	_, err := client.Set(ctx, name, value)
	require.NoError(t, err)
	get, err := client.Get(ctx, name)
	require.NoError(t, err)
	require.Equal(t, value, get.Value)
}

func TestConditionsOfASet(t *testing.T) {
	ctx, client, name := within(t), store(t, shared(t)), key(t)
	set := func(expected bool, value string, condition statestore.Condition) hlc.HybridLogicalClock {
		res, err := client.Set(ctx, name, value, condition)
		require.NoError(t, err)
		require.Equal(t, expected, res.Value)
		return res.Version
	}
	first := set(true, "a", statestore.NotExists)
	require.Zero(t, first.Compare(set(false, "a", statestore.NotExists)), "a set that is not done tells the stored version")
	require.Zero(t, first.Compare(set(false, "b", statestore.NotExistsOrEqual)))
	require.Equal(t, -1, first.Compare(set(true, "a", statestore.NotExistsOrEqual)))
}

func TestConditionsOfADelete(t *testing.T) {
	ctx, client, name := within(t), store(t, shared(t)), key(t)
	_, err := client.Set(ctx, name, "a")
	require.NoError(t, err)
	for _, step := range []struct {
		value    string
		expected int
	}{{"b", -1}, {"a", 1}, {"a", 0}} {
		res, err := client.VDel(ctx, name, step.value)
		require.NoError(t, err)
		require.Equal(t, step.expected, res.Value)
	}
}

func TestAKeyIsObserved(t *testing.T) {
	ctx, client, name, other := within(t), store(t, shared(t)), key(t), key(t)
	changes, done := client.Notify(name)
	defer done()
	others, otherDone := client.Notify(other)
	defer otherDone()
	require.NoError(t, client.KeyNotify(ctx, name))

	set, err := client.Set(ctx, name, "value")
	require.NoError(t, err)
	change := next(t, changes)
	require.Equal(t, []string{name, "SET", "value"}, []string{change.Key, change.Operation, change.Value})
	require.Zero(t, change.Version.Compare(set.Version))

	_, err = client.Del(ctx, name)
	require.NoError(t, err)
	change = next(t, changes)
	require.Equal(t, []string{name, "DELETE", ""}, []string{change.Key, change.Operation, change.Value})
	require.Equal(t, 1, change.Version.Compare(set.Version), "a deletion has a version of its own, greater than the value's")

	require.NoError(t, client.KeyNotifyStop(ctx, name))
	require.NoError(t, client.KeyNotify(ctx, other))
	for _, changed := range []string{name, other} {
		_, err = client.Set(ctx, changed, "unseen")
		require.NoError(t, err)
	}
	require.Equal(t, other, next(t, others).Key)
	require.Empty(t, changes, "nothing is notified after the answer to STOP")
}

func TestExpiryIsObserved(t *testing.T) {
	ctx, client, name := within(t), store(t, shared(t)), key(t)
	changes, done := client.Notify(name)
	defer done()
	require.NoError(t, client.KeyNotify(ctx, name))
	_, err := client.Set(ctx, name, "value", statestore.WithExpiry(300*time.Millisecond))
	require.NoError(t, err)
	require.Equal(t, "SET", next(t, changes).Operation)
	require.Equal(t, "DELETE", next(t, changes).Operation)
	get, err := client.Get(ctx, name)
	require.NoError(t, err)
	require.True(t, get.Version.IsZero())
}

func TestEachOfSeveralObserversIsToldOnce(t *testing.T) {
	ctx, address, name := within(t), shared(t), key(t)
	writer := store(t, address)
	var channels []<-chan statestore.Notify[string, string]
	for range 3 {
		observer := store(t, address)
		changes, done := observer.Notify(name)
		defer done()
		require.NoError(t, observer.KeyNotify(ctx, name))
		channels = append(channels, changes)
	}
	for number := range 20 {
		value := fmt.Sprint(number)
		_, err := writer.Set(ctx, name, value)
		require.NoError(t, err)
		for _, changes := range channels {
			require.Equal(t, value, next(t, changes).Value)
		}
	}
}

func TestNotificationsMayBeAcknowledgedByHand(t *testing.T) {
	ctx, name := within(t), key(t)
	client := storeOver(t, session(t, shared(t), mqtt.WithReceiveMaximum(4)), statestore.WithManualAck(true))
	changes, done := client.Notify(name)
	defer done()
	require.NoError(t, client.KeyNotify(ctx, name))
	for range 20 {
		_, err := client.Set(ctx, name, "value")
		require.NoError(t, err)
		next(t, changes).Ack()
	}
}

func TestErrorsAreThoseThatTheClientKnows(t *testing.T) {
	ctx, client, name, lock := within(t), store(t, shared(t)), key(t), key(t)
	token := func() statestore.WithFencingToken {
		res, err := client.Set(ctx, lock, "holder")
		require.NoError(t, err)
		return statestore.WithFencingToken(res.Version)
	}
	older, newer := token(), token()
	_, err := client.Set(ctx, name, "a", newer)
	require.NoError(t, err)

	_, err = client.Set(ctx, name, "b")
	require.Equal(t, errors.MissingFencingToken, err)
	_, err = client.Set(ctx, name, "b", older)
	require.Equal(t, errors.FencingTokenLowerVersion, err)
	_, err = client.Del(ctx, name, older)
	require.Equal(t, errors.FencingTokenLowerVersion, err)
	_, err = client.VDel(ctx, name, "a", older)
	require.Equal(t, errors.FencingTokenLowerVersion, err)

	ahead, err := hlc.New().Parse("__ft", fmt.Sprintf("%015d:%05d:%s", time.Now().Add(2*time.Minute).UnixMilli(), 0, "ahead"))
	if err == nil {
		_, err = client.Set(ctx, name, "b", statestore.WithFencingToken(ahead))
		require.Equal(t, errors.FencingTokenSkew, err)
	}
	del, err := client.Del(ctx, name, newer)
	require.NoError(t, err)
	require.Equal(t, 1, del.Value)
}

func TestAQuotaIsTold(t *testing.T) {
	ctx := within(t)
	client := store(t, startServer(t, "[state_store]\nkeys_max = 2\n").address)
	for _, name := range []string{"a", "b"} {
		_, err := client.Set(ctx, name, "value")
		require.NoError(t, err)
	}
	_, err := client.Set(ctx, "c", "value")
	require.Equal(t, errors.QuotaExceeded, err)
}

func TestManyRequestsAtOnce(t *testing.T) {
	ctx, client, name := within(t), store(t, shared(t)), key(t)
	var all sync.WaitGroup
	for number := range 200 {
		all.Go(func() {
			mine := fmt.Sprint(name, number)
			_, err := client.Set(ctx, mine, mine)
			if err == nil {
				var get *statestore.Response[string]
				if get, err = client.Get(ctx, mine); err == nil && get.Value != mine {
					err = fmt.Errorf("%q instead of %q", get.Value, mine)
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// What the SDK says of persistence is taken everywhere: on CONNECT, with a SET, and with a retained PUBLISH.
func TestPersistenceIsTakenAndKept(t *testing.T) {
	ctx, server := within(t), startServer(t, "durability = \"memory\"\n")
	client := session(t, server.address, mqtt.WithConnectPersist())
	kept := storeOver(t, client)
	_, err := kept.Set(ctx, "kept", "value", statestore.WithPersist(true))
	require.NoError(t, err)
	_, err = client.Publish(ctx, "kept", []byte("retained"), mqtt.WithQoS(1), mqtt.WithRetain(true), mqtt.WithPersist())
	require.NoError(t, err)
	// The SDK does not wait for the PUBACK; what is answered after it was read after it.
	_, err = kept.Get(ctx, "kept")
	require.NoError(t, err)

	server.kill()
	server.start()
	again := session(t, server.address)
	messages := messagesOf(t, again)
	_, err = again.Subscribe(ctx, "kept", mqtt.WithQoS(1))
	require.NoError(t, err)
	require.Equal(t, "retained", string(next(t, messages).Payload))
	get, err := storeOver(t, again).Get(ctx, "kept")
	require.NoError(t, err)
	require.Equal(t, "value", get.Value)
}
