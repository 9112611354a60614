package interop

import (
	"strings"
	"testing"

	"github.com/Azure/iot-operations-sdks/go/mqtt"
	"github.com/Azure/iot-operations-sdks/go/services/statestore"
	"github.com/stretchr/testify/require"
)

// The product's memory profiles allow packets of 4, 16, 64 and 256 MiB.
const largePackets = "[limits]\npacket_size_max = \"256 MiB\"\nqueue_bytes_max = \"1 GiB\"\n"

func TestALargeValueAndALargeMessage(t *testing.T) {
	ctx, server := within(t), startServer(t, largePackets)
	large := strings.Repeat("x", 70<<20)
	client := session(t, server.address)
	kept := storeOver(t, client)
	_, err := kept.Set(ctx, "large", large, statestore.WithTimeout(patience))
	require.NoError(t, err)
	messages := messagesOf(t, client)
	_, err = client.Subscribe(ctx, "large", mqtt.WithQoS(1))
	require.NoError(t, err)
	_, err = client.Publish(ctx, "large", []byte(large), mqtt.WithQoS(1))
	require.NoError(t, err)
	require.Len(t, next(t, messages).Payload, len(large))

	server.kill()
	server.start()
	get, err := kept.Get(ctx, "large", statestore.WithTimeout(patience))
	require.NoError(t, err)
	require.True(t, get.Value == large)
}

func TestALargeValueInACluster(t *testing.T) {
	ctx, nodes := within(t), startCluster(t, largePackets)
	large := strings.Repeat("x", 70<<20)
	// One of the nodes leads; the others give it the value.
	for _, n := range nodes {
		_, err := store(t, n.address).Set(ctx, "large", large, statestore.WithTimeout(patience))
		require.NoError(t, err)
	}
	for _, n := range nodes {
		get, err := store(t, n.address).Get(ctx, "large", statestore.WithTimeout(patience))
		require.NoError(t, err)
		require.True(t, get.Value == large)
	}
	nodes[0].kill()
	get, err := store(t, nodes[1].address).Get(ctx, "large", statestore.WithTimeout(patience))
	require.NoError(t, err)
	require.True(t, get.Value == large)
}

// A packet that is larger than the server takes ends this client for good, and the server has told it the limit before.
func TestAPacketThatIsTooLarge(t *testing.T) {
	ctx, server := within(t), startServer(t, "[limits]\npacket_size_max = \"4 MiB\"\n")
	kept := store(t, server.address)
	fits := strings.Repeat("x", 4<<20-1024)
	_, err := kept.Set(ctx, "fits", fits, statestore.WithTimeout(patience))
	require.NoError(t, err)

	ended := make(chan error, 1)
	client := newSession(t, server.address, "")
	client.RegisterFatalErrorHandler(func(err error) { ended <- err })
	require.NoError(t, client.Start())
	// The server refuses the packet by its length: the client may end before it has written all of it.
	if _, err = client.Publish(ctx, "large", make([]byte, 4<<20), mqtt.WithQoS(1)); err != nil {
		require.Equal(t, &mqtt.ClientStateError{State: mqtt.ShutDown}, err)
	}
	require.Equal(t, &mqtt.FatalDisconnectError{ReasonCode: 0x95}, next(t, ended))
}
