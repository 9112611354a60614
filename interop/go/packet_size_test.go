package interop

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/Azure/iot-operations-sdks/go/mqtt"
	"github.com/Azure/iot-operations-sdks/go/services/statestore"
	"github.com/stretchr/testify/require"
)

// The product's memory profiles allow packets of 4, 16, 64 and 256 MiB.
const largePackets = "[limits]\npacket_size_max = \"256 MiB\"\nqueue_bytes_max = \"1 GiB\"\n"

// patientFollowers wait longer for a leader than any step takes on a machine with much else to do. So a leader that is replaced is replaced
// because of a value, and not because other programs had the processors.
const patientFollowers = "[cluster]\nelection_timeout = \"3s\"\n"

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
	ctx, nodes := within(t), startCluster(t, largePackets+patientFollowers)
	large := strings.Repeat("x", 70<<20)
	before := settledTerm(ctx, t, nodes)
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
	for _, n := range nodes {
		require.Equal(t, before, n.group().Term, "a large value cost an election")
	}
	nodes[0].kill()
	get, err := store(t, nodes[1].address).Get(ctx, "large", statestore.WithTimeout(patience))
	require.NoError(t, err)
	require.True(t, get.Value == large)
}

// storeGroup is the group of a cluster that has the keys, as a node sees it.
type storeGroup struct {
	Leader string
	Term   uint64
	Voters []string
}

// group asks a node for the only group of keys. `control` is another group, which knows the members.
func (n *node) group() storeGroup {
	output, _ := run(n.t, "cluster", "groups", "--json", "--admin", "http://"+n.admin)
	for line := range strings.Lines(output) {
		var seen struct {
			storeGroup
			Group json.RawMessage
		}
		require.NoError(n.t, json.Unmarshal([]byte(line), &seen))
		if string(seen.Group) == "0" {
			return seen.storeGroup
		}
	}
	require.FailNow(n.t, "there is no group of keys", output)
	panic("unreachable")
}

// settledTerm waits until all nodes know the same term of a leader that has no reason to hand over: it is the voter with the lowest id,
// which gets the first group without an election. From then on each further term is an election.
func settledTerm(ctx context.Context, t *testing.T, nodes []*node) uint64 {
	for {
		require.NoError(t, ctx.Err(), "leaders still change")
		first := nodes[0].group()
		isSettled := len(first.Voters) == len(nodes) && first.Leader == slices.Min(first.Voters)
		for _, n := range nodes[1:] {
			seen := n.group()
			isSettled = isSettled && seen.Leader == first.Leader && seen.Term == first.Term
		}
		if isSettled {
			return first.Term
		}
	}
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
