package interop

import (
	"context"
	"fmt"
	"net/url"
	"testing"

	"github.com/Azure/iot-operations-sdks/go/mqtt"
	"github.com/Azure/iot-operations-sdks/go/protocol"
	"github.com/stretchr/testify/require"
)

// receive starts a receiver of telemetry over a session.
func receive(t *testing.T, client *mqtt.SessionClient, topic string, opts ...protocol.TelemetryReceiverOption) <-chan *protocol.TelemetryMessage[string] {
	messages := make(chan *protocol.TelemetryMessage[string], 10_000)
	receiver, err := protocol.NewTelemetryReceiver(app, client, text, topic,
		func(_ context.Context, message *protocol.TelemetryMessage[string]) error {
			messages <- message
			return nil
		}, opts...)
	require.NoError(t, err)
	require.NoError(t, receiver.Start(within(t)))
	return messages
}

func send(t *testing.T, client *mqtt.SessionClient, topic string, opts ...protocol.TelemetrySenderOption) *protocol.TelemetrySender[string] {
	sender, err := protocol.NewTelemetrySender(app, client, text, topic, opts...)
	require.NoError(t, err)
	return sender
}

func TestTelemetryArrivesAsACloudEvent(t *testing.T) {
	ctx, address := within(t), shared(t)
	client := session(t, address)
	messages := receive(t, session(t, address), "telemetry/{token}/suffix")
	source, err := url.Parse("https://contoso.com")
	require.NoError(t, err)
	sender := send(t, client, "telemetry/{token}/suffix", protocol.WithTopicTokens{"token": "test"})
	require.NoError(t, sender.Send(ctx, "value", &protocol.CloudEvent{Source: source}))
	message := next(t, messages)
	require.Equal(t, client.ID(), message.ClientID)
	require.Equal(t, "value", message.Payload)
	require.Equal(t, "test", message.TopicTokens["token"])
	event, err := protocol.CloudEventFromTelemetry(message)
	require.NoError(t, err)
	require.Equal(t, "https://contoso.com", event.Source.String())
	require.Equal(t, "telemetry/test/suffix", event.Subject)
}

func TestTelemetryThatIsRetainedAndPersistedWaitsForItsReceiver(t *testing.T) {
	ctx, address, topic := within(t), shared(t), key(t)
	client := session(t, address)
	require.NoError(t, send(t, client, topic).Send(ctx, "kept", protocol.WithPersist(true)))
	// The SDK does not wait for the PUBACK; what is answered after it was read after it.
	_, err := storeOver(t, client).Get(ctx, topic)
	require.NoError(t, err)
	require.Equal(t, "kept", next(t, receive(t, session(t, address), topic)).Payload)
}

func TestReceiversShareTelemetryAndAcknowledgeByHand(t *testing.T) {
	ctx, address, topic := within(t), shared(t), key(t)
	var channels []<-chan *protocol.TelemetryMessage[string]
	for range 2 {
		client := session(t, address, mqtt.WithReceiveMaximum(3))
		channels = append(channels, receive(t, client, topic, protocol.WithShareName("workers"), protocol.WithManualAck(true)))
	}
	sender := send(t, session(t, address), topic)
	go func() {
		for number := range 40 {
			if err := sender.Send(ctx, fmt.Sprint(number)); err != nil {
				t.Error(err)
			}
		}
	}()
	seen := map[string]int{}
	for range 40 {
		var message *protocol.TelemetryMessage[string]
		select {
		case message = <-channels[0]:
		case message = <-channels[1]:
		case <-ctx.Done():
			require.FailNow(t, "not all have come", "%v", seen)
		}
		seen[message.Payload]++
		message.Ack()
	}
	require.Len(t, seen, 40, "each came to one of the two, once")
}
