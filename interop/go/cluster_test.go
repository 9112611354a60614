package interop

import (
	"fmt"
	"testing"

	"github.com/Azure/iot-operations-sdks/go/mqtt"
	"github.com/Azure/iot-operations-sdks/go/services/statestore"
	"github.com/stretchr/testify/require"
)

// threeNodes is a cluster, and a line to it for each node: a client of the line goes to that node while it is there, else to the next one.
func threeNodes(t *testing.T) (nodes []*node, lines []*relay) {
	nodes = startCluster(t, "")
	for number := range nodes {
		var targets []string
		for other := range nodes {
			targets = append(targets, nodes[(number+other)%len(nodes)].address)
		}
		lines = append(lines, startRelay(t, targets...))
	}
	return nodes, lines
}

// Clients at each of three nodes; one of the nodes is killed under them. Nothing that was acknowledged is missing, and everybody goes on.
func TestOneNodeOfThreeIsKilled(t *testing.T) {
	ctx := within(t)
	nodes, lines := threeNodes(t)
	name := key(t)
	var clients []*mqtt.SessionClient
	var stores []*storeClient
	for _, line := range lines {
		client := session(t, line.address)
		clients, stores = append(clients, client), append(stores, storeOver(t, client))
	}
	observed := make([]<-chan statestore.Notify[string, string], len(stores))
	for number, kept := range stores {
		changes, done := kept.Notify(name)
		defer done()
		observed[number] = changes
		require.NoError(t, kept.KeyNotify(ctx, name))
	}
	setEverywhere := func(value string) {
		for number, kept := range stores {
			mine := fmt.Sprint(value, number)
			_, err := kept.Set(ctx, name, mine, statestore.WithTimeout(patience))
			require.NoError(t, err)
			for _, changes := range observed {
				for next(t, changes).Value != mine {
				}
			}
		}
	}
	setEverywhere("before")
	telemetry := receive(t, clients[0], "telemetry/"+name)
	nodes[0].kill()

	setEverywhere("after")
	for number, client := range clients {
		get, err := stores[number].Get(ctx, name, statestore.WithTimeout(patience))
		require.NoError(t, err)
		require.Equal(t, "after2", get.Value)
		value := fmt.Sprint(number)
		require.NoError(t, send(t, client, "telemetry/"+name).Send(ctx, value))
		if number > 0 { // A receiver hears nothing of its own client.
			for next(t, telemetry).Payload != value {
			}
		}
	}
	countUnderALock(ctx, t, 3, 3, func() *storeClient { return store(t, lines[0].address) }, func() {})
}

// Requests go on while a node is killed in the middle of them, each executed once.
func TestRequestsSurviveTheLossOfTheirNode(t *testing.T) {
	ctx := within(t)
	nodes, lines := threeNodes(t)
	client := store(t, lines[1].address)
	setAndGet(ctx, t, client, 20, func() {})
	done := make(chan struct{})
	go func() {
		defer close(done)
		nodes[1].kill()
	}()
	setAndGet(ctx, t, client, 40, func() {})
	<-done
	nodes[1].start()
	setAndGet(ctx, t, client, 20, func() {})
}

func TestCommandsAndTelemetryInAClusterWithLostConnections(t *testing.T) {
	ctx := within(t)
	nodes, lines := threeNodes(t)
	commandsOver(ctx, t, lines[0], 20)
	telemetryOver(ctx, t, lines[1], 100)
	nodes[2].kill()
	commandsOver(ctx, t, lines[0], 10)
	telemetryOver(ctx, t, lines[1], 50)
}
