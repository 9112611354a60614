package interop

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/iot-operations-sdks/go/mqtt"
	"github.com/Azure/iot-operations-sdks/go/mqtt/retry"
	"github.com/Azure/iot-operations-sdks/go/protocol"
	"github.com/Azure/iot-operations-sdks/go/services/statestore"
	"github.com/stretchr/testify/require"
)

var app = protocol.Must(protocol.NewApplication())

// patience is how long anything may take before a test gives up; nothing waits for it to pass.
const patience = 60 * time.Second

// within is the context of a test.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	t.Cleanup(cancel)
	return ctx
}

// newSession makes a session client that the test stops in the end. Its retries are the SDK's, but not a minute apart.
func newSession(t *testing.T, address, id string, opts ...mqtt.SessionClientOption) *mqtt.SessionClient {
	host, text, err := net.SplitHostPort(address)
	require.NoError(t, err)
	port, err := strconv.ParseUint(text, 10, 16)
	require.NoError(t, err)
	if id == "" {
		id = mqtt.RandomClientID()
	}
	opts = append([]mqtt.SessionClientOption{
		mqtt.WithConnectionRetry(&retry.ExponentialBackoff{MaxInterval: time.Second}),
		mqtt.WithSessionExpiry(600),
	}, opts...)
	client, err := mqtt.NewSessionClient(id, mqtt.TCPConnection(host, uint16(port)), opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Stop() })
	return client
}

// session is one that is started. A fatal error of it fails the test.
func session(t *testing.T, address string, opts ...mqtt.SessionClientOption) *mqtt.SessionClient {
	client := newSession(t, address, "", opts...)
	mustGoOn(t, client)
	require.NoError(t, client.Start())
	return client
}

// mustGoOn fails the test if a client ends for good.
func mustGoOn(t *testing.T, client *mqtt.SessionClient) {
	// A client that is stopped may take its own end for a lost connection.
	var isOver atomic.Bool
	t.Cleanup(func() { isOver.Store(true) })
	client.RegisterFatalErrorHandler(func(err error) {
		var stopped *mqtt.ClientStateError
		if !isOver.Load() && !errors.As(err, &stopped) && !errors.Is(err, context.Canceled) {
			t.Errorf("%s ended for good: %v", client.ID(), err)
		}
	})
}

type storeClient = statestore.Client[string, string]

// store is a state store client over a session of its own.
func store(t *testing.T, address string, opts ...mqtt.SessionClientOption) *storeClient {
	return storeOver(t, session(t, address, opts...))
}

func storeOver(t *testing.T, client *mqtt.SessionClient, opts ...statestore.ClientOption) *storeClient {
	store, err := statestore.New[string, string](app, client, opts...)
	require.NoError(t, err)
	require.NoError(t, store.Start(within(t)))
	return store
}

// next is what comes next on a channel.
func next[T any](t *testing.T, from <-chan T) T {
	select {
	case value, ok := <-from:
		require.True(t, ok, "the channel was closed")
		return value
	case <-time.After(patience):
		require.FailNow(t, "nothing came")
		panic("unreachable")
	}
}

// key is a name that no other test uses.
func key(t *testing.T) string { return t.Name() + ":" + mqtt.RandomClientID() }
