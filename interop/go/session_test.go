package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/Azure/iot-operations-sdks/go/mqtt"
	"github.com/stretchr/testify/require"
)

func TestASessionClientConnectsAndStops(t *testing.T) {
	client := newSession(t, shared(t), "")
	require.Error(t, client.Stop(), "it was not started")
	connected := make(chan *mqtt.ConnectEvent, 1)
	client.RegisterConnectEventHandler(func(event *mqtt.ConnectEvent) { connected <- event })
	require.NoError(t, client.Start())
	require.Zero(t, next(t, connected).ReasonCode)
	require.NoError(t, client.Stop())
}

func TestMessagesOfEachQoSAndTheirProperties(t *testing.T) {
	ctx, address, topic := within(t), shared(t), key(t)
	client, other := session(t, address), session(t, address)
	messages := messagesOf(t, other)
	ack, err := other.Subscribe(ctx, topic+"/+", mqtt.WithQoS(1))
	require.NoError(t, err)
	require.Equal(t, byte(1), ack.ReasonCode)
	for _, qos := range []byte{0, 1} {
		_, err = client.Publish(ctx, fmt.Sprint(topic, "/", qos), []byte("payload"), mqtt.WithQoS(qos),
			mqtt.WithContentType("text/plain"), mqtt.WithCorrelationData([]byte{0, 1}), mqtt.WithMessageExpiry(60),
			mqtt.WithPayloadFormat(1), mqtt.WithResponseTopic("answers"), mqtt.WithUserProperties{"name": "value"})
		require.NoError(t, err)
		message := next(t, messages)
		require.Equal(t, fmt.Sprint(topic, "/", qos), message.Topic)
		require.Equal(t, "payload", string(message.Payload))
		require.Equal(t, qos, message.QoS)
		require.Equal(t, "text/plain", message.ContentType)
		require.Equal(t, []byte{0, 1}, message.CorrelationData)
		require.LessOrEqual(t, message.MessageExpiry, uint32(60))
		require.Positive(t, message.MessageExpiry)
		require.Equal(t, byte(1), message.PayloadFormat)
		require.Equal(t, "answers", message.ResponseTopic)
		require.Equal(t, "value", message.UserProperties["name"])
	}
	ack, err = other.Unsubscribe(ctx, topic+"/+")
	require.NoError(t, err)
	require.Zero(t, ack.ReasonCode)
	ack, err = other.Unsubscribe(ctx, topic+"/+")
	require.NoError(t, err)
	require.Equal(t, byte(0x11), ack.ReasonCode, "there is no such subscription any more")
}

func TestRetainedMessagesAndTheOptionsOfASubscription(t *testing.T) {
	ctx, address, topic := within(t), shared(t), key(t)
	client := session(t, address)
	messages := messagesOf(t, client)
	_, err := client.Publish(ctx, topic, []byte("kept"), mqtt.WithQoS(1), mqtt.WithRetain(true))
	require.NoError(t, err)
	_, err = client.Subscribe(ctx, topic, mqtt.WithQoS(1), mqtt.WithNoLocal(true))
	require.NoError(t, err)
	first := next(t, messages)
	require.True(t, first.Retain)
	require.Equal(t, "kept", string(first.Payload))
	// With No Local nothing of its own comes, so the message of another one is the next.
	_, err = client.Publish(ctx, topic, []byte("its own"), mqtt.WithQoS(1))
	require.NoError(t, err)
	_, err = session(t, address).Publish(ctx, topic, []byte("another's"), mqtt.WithQoS(1))
	require.NoError(t, err)
	require.Equal(t, "another's", string(next(t, messages).Payload))
}

// The client ends for good with these, and for no other reason: they have to mean what it takes them for.
func TestATakeoverEndsTheOlderClientForGood(t *testing.T) {
	address, id := shared(t), mqtt.RandomClientID()
	ended := make(chan error, 1)
	older := newSession(t, address, id)
	older.RegisterFatalErrorHandler(func(err error) { ended <- err })
	connected := make(chan *mqtt.ConnectEvent, 1)
	older.RegisterConnectEventHandler(func(event *mqtt.ConnectEvent) { connected <- event })
	require.NoError(t, older.Start())
	next(t, connected)
	newer := newSession(t, address, id)
	require.NoError(t, newer.Start())
	require.Equal(t, &mqtt.FatalDisconnectError{ReasonCode: 0x8E}, next(t, ended))
}

func TestAPasswordIsAsked(t *testing.T) {
	dir := t.TempDir()
	file, secret := filepath.Join(dir, "passwords"), filepath.Join(dir, "secret")
	require.NoError(t, os.WriteFile(secret, []byte("the secret\n"), 0o600))
	run(t, "passwd", file, "press-7", "--password-file", secret)
	server := startServer(t, fmt.Sprintf("[[listeners]]\naddress = \"127.0.0.1:0\"\nauthentication = [\"password\"]\n[authentication.password]\nfile = %q\n", file))
	credentials := func(password string) []mqtt.SessionClientOption {
		return []mqtt.SessionClientOption{
			mqtt.WithUsername(mqtt.ConstantUsername("press-7")),
			mqtt.WithPassword(mqtt.ConstantPassword([]byte(password))),
		}
	}
	_, err := store(t, server.address, credentials("the secret")...).Set(within(t), "k", "v")
	require.NoError(t, err)

	refused := make(chan error, 1)
	stranger := newSession(t, server.address, "", credentials("another one")...)
	stranger.RegisterFatalErrorHandler(func(err error) { refused <- err })
	require.NoError(t, stranger.Start())
	var code *mqtt.FatalConnackError
	require.ErrorAs(t, next(t, refused), &code)
	require.Contains(t, []byte{0x86, 0x87}, code.ReasonCode)
}

// What an operator does to a client is no reason for it to end: it comes back to its session.
func TestAClientThatAnOperatorDisconnectsComesBack(t *testing.T) {
	ctx, dir := within(t), t.TempDir()
	tokens := filepath.Join(dir, "tokens")
	line, said := run(t, "admin-token", "ops", "--scope", "write")
	require.NoError(t, os.WriteFile(tokens, []byte(line), 0o600))
	words := strings.Fields(said)
	token := words[len(words)-1]
	server := startServer(t, fmt.Sprintf("[admin]\ntokens = %q\n", tokens))
	client := session(t, server.address)
	disconnected := make(chan *mqtt.DisconnectEvent, 1)
	client.RegisterDisconnectEventHandler(func(event *mqtt.DisconnectEvent) { disconnected <- event })
	kept := storeOver(t, client)
	_, err := kept.Set(ctx, "k", "v")
	require.NoError(t, err)

	body, err := json.Marshal(map[string]string{"reason": "replaced"})
	require.NoError(t, err)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost,
		"http://"+server.admin+"/api/clients/"+client.ID()+"/disconnect", bytes.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Equal(t, byte(0x98), *next(t, disconnected).ReasonCode)
	get, err := kept.Get(ctx, "k")
	require.NoError(t, err)
	require.Equal(t, "v", get.Value)
}

// A server that is busy is asked again.
func TestAServerThatIsFullIsTriedAgain(t *testing.T) {
	ctx, server := within(t), startServer(t, "[limits]\nconnections_max = 1\n")
	first := session(t, server.address)
	connected := make(chan *mqtt.ConnectEvent, 1)
	_, err := first.Publish(ctx, "x", nil)
	require.NoError(t, err)
	second := newSession(t, server.address, "")
	mustGoOn(t, second)
	second.RegisterConnectEventHandler(func(event *mqtt.ConnectEvent) { connected <- event })
	require.NoError(t, second.Start())
	require.NoError(t, first.Stop())
	next(t, connected)
}
