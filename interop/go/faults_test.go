package interop

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/Azure/iot-operations-sdks/go/mqtt"
	"github.com/Azure/iot-operations-sdks/go/protocol"
	"github.com/Azure/iot-operations-sdks/go/services/statestore"
	"github.com/stretchr/testify/require"
)

// while calls disturb during work: each time something has happened, and once a second while nothing happens.
//
// A request that the SDK has stored too late for the connection in use is sent on the next one (interop/README.md).
func while(t *testing.T, disturb func(), work func(happened func())) {
	happened := make(chan struct{})
	done := make(chan struct{})
	disturbed := 0
	var disturber sync.WaitGroup
	disturber.Go(func() {
		for {
			select {
			case <-happened:
				disturb()
				disturbed++
			case <-time.After(time.Second):
				disturb()
			case <-done:
				return
			}
		}
	})
	work(func() { happened <- struct{}{} })
	close(done)
	disturber.Wait()
	require.GreaterOrEqual(t, disturbed, 3, "hardly anything was disturbed")
}

func TestAnIdleClientNoticesALostConnectionAndComesBack(t *testing.T) {
	line := startRelay(t, shared(t))
	client := newSession(t, line.address, "")
	events := make(chan string, 10)
	client.RegisterConnectEventHandler(func(*mqtt.ConnectEvent) { events <- "connected" })
	client.RegisterDisconnectEventHandler(func(*mqtt.DisconnectEvent) { events <- "disconnected" })
	mustGoOn(t, client)
	require.NoError(t, client.Start())
	require.Equal(t, "connected", next(t, events))
	for range 3 {
		line.cut()
		require.ElementsMatch(t, []string{"disconnected", "connected"}, []string{next(t, events), next(t, events)})
	}
}

// What is asked for while there is no connection is done when there is one.
func TestRequestsWaitForAConnection(t *testing.T) {
	ctx, topic := within(t), key(t)
	line := startRelay(t, shared(t))
	client := session(t, line.address)
	messages := messagesOf(t, client)
	_, err := client.Subscribe(ctx, topic+"/1", mqtt.WithQoS(1))
	require.NoError(t, err)
	disconnected := make(chan struct{}, 10)
	client.RegisterDisconnectEventHandler(func(*mqtt.DisconnectEvent) { disconnected <- struct{}{} })
	line.refuse(true)
	next(t, disconnected)

	var all sync.WaitGroup
	all.Go(func() {
		if _, err := client.Publish(ctx, topic+"/1", []byte("1"), mqtt.WithQoS(1)); err != nil {
			t.Error(err)
		}
	})
	all.Go(func() {
		if _, err := client.Subscribe(ctx, topic+"/2", mqtt.WithQoS(1)); err != nil {
			t.Error(err)
			return
		}
		if _, err := client.Publish(ctx, topic+"/2", []byte("2"), mqtt.WithQoS(1)); err != nil {
			t.Error(err)
		}
	})
	line.refuse(false)
	require.ElementsMatch(t, []string{"1", "2"}, []string{string(next(t, messages).Payload), string(next(t, messages).Payload)})
	all.Wait()
}

// A request that was decided before its connection was lost is answered with its first outcome when it comes again: an NX that has set its key
// has set it.
func TestRequestsSurviveLostConnections(t *testing.T) {
	line := startRelay(t, shared(t))
	client := store(t, line.address)
	while(t, line.cut, func(happened func()) { setAndGet(within(t), t, client, 60, happened) })
}

func setAndGet(ctx context.Context, t *testing.T, client *storeClient, times int, happened func()) {
	name := key(t)
	for number := range times {
		mine := fmt.Sprint(name, ":", number)
		set, err := client.Set(ctx, mine, mine, statestore.NotExists, statestore.WithTimeout(patience))
		require.NoError(t, err)
		require.True(t, set.Value, "request %d was executed twice", number)
		get, err := client.Get(ctx, mine, statestore.WithTimeout(patience))
		require.NoError(t, err)
		require.Equal(t, mine, get.Value)
		require.Zero(t, set.Version.Compare(get.Version))
		happened()
	}
}

func TestALockIsKeptOverLostConnections(t *testing.T) {
	ctx := within(t)
	line := startRelay(t, shared(t))
	while(t, line.cut, func(happened func()) {
		countUnderALock(ctx, t, 3, 4, func() *storeClient { return store(t, line.address) }, happened)
	})
}

// The client watches again on each connection, and reads what it may have missed.
func TestNotificationsGoOnAfterALostConnection(t *testing.T) {
	ctx, address, name := within(t), shared(t), key(t)
	line := startRelay(t, address)
	observer, writer := store(t, line.address), store(t, address)
	changes, done := observer.Notify(name)
	defer done()
	require.NoError(t, observer.KeyNotify(ctx, name))
	for number := range 10 {
		if number%3 == 2 {
			line.cut()
		}
		value := fmt.Sprint(number)
		_, err := writer.Set(ctx, name, value)
		require.NoError(t, err)
		for next(t, changes).Value != value {
		}
	}
}

func TestCommandsSurviveLostConnectionsOfBothSides(t *testing.T) {
	line := startRelay(t, shared(t))
	commandsOver(within(t), t, line, 40)
}

func commandsOver(ctx context.Context, t *testing.T, line *relay, times int) {
	topic := key(t)
	var mu sync.Mutex
	executions := map[string]int{}
	execute(t, session(t, line.address), topic, func(ctx context.Context, request *protocol.CommandRequest[string]) (*protocol.CommandResponse[string], error) {
		mu.Lock()
		executions[request.Payload]++
		mu.Unlock()
		return echo(ctx, request)
	})
	client := session(t, line.address)
	command := invoke(t, client, topic, protocol.WithResponseTopicSuffix("response"))
	while(t, line.cut, func(happened func()) {
		for number := range times {
			value := fmt.Sprint(number)
			answer, err := command.Invoke(ctx, value, protocol.WithTimeout(patience))
			require.NoError(t, err)
			require.Equal(t, value+" from "+client.ID(), answer.Payload)
			happened()
		}
	})
	mu.Lock()
	defer mu.Unlock()
	for value, count := range executions {
		require.Equal(t, 1, count, "request %s was executed more than once", value)
	}
	require.Len(t, executions, times)
}

func TestTelemetrySurvivesLostConnectionsOfBothSides(t *testing.T) {
	line := startRelay(t, shared(t))
	telemetryOver(within(t), t, line, 200)
}

// telemetryOver sends so many messages while connections are cut: all arrive, at least once each.
func telemetryOver(ctx context.Context, t *testing.T, line *relay, times int) {
	topic := key(t)
	messages := receive(t, session(t, line.address), topic)
	sender := send(t, session(t, line.address), topic)
	missing := map[string]bool{}
	while(t, line.cut, func(happened func()) {
		for number := range times {
			missing[fmt.Sprint(number)] = true
			require.NoError(t, sender.Send(ctx, fmt.Sprint(number), protocol.WithTimeout(10*patience)))
			if number%10 == 0 {
				happened()
			}
		}
		for len(missing) > 0 {
			delete(missing, next(t, messages).Payload)
		}
	})
}

// The server is killed, and comes back with everything that it has acknowledged: sessions too, which this client insists on.
func TestAServerThatIsKilledComesBackWithItsSessions(t *testing.T) {
	ctx, server, name := within(t), startServer(t, ""), key(t)
	client := session(t, server.address)
	kept := storeOver(t, client)
	changes, done := kept.Notify(name)
	defer done()
	require.NoError(t, kept.KeyNotify(ctx, name))
	messages := messagesOf(t, client)
	_, err := client.Subscribe(ctx, "t", mqtt.WithQoS(1))
	require.NoError(t, err)
	for round := range 3 {
		value := fmt.Sprint("round ", round)
		_, err := kept.Set(ctx, name, value, statestore.WithTimeout(patience))
		require.NoError(t, err)
		for next(t, changes).Value != value {
		}
		server.kill()
		server.start()
		get, err := kept.Get(ctx, name, statestore.WithTimeout(patience))
		require.NoError(t, err)
		require.Equal(t, value, get.Value)
		_, err = client.Publish(ctx, "t", []byte(value), mqtt.WithQoS(1))
		require.NoError(t, err)
		for string(next(t, messages).Payload) != value {
		}
	}
}
