package interop

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/Azure/iot-operations-sdks/go/mqtt"
	"github.com/stretchr/testify/require"
)

// The server that tests share which do not disturb each other. It is started for the first of them.
var (
	sharedServer *node
	startShared  sync.Once
)

func shared(t *testing.T) string {
	startShared.Do(func() {
		dir, err := os.MkdirTemp("", "statehold-interop-")
		require.NoError(t, err)
		sharedServer = &node{t: t, dir: filepath.Join(dir, "node"), address: "127.0.0.1:0"}
		sharedServer.args = []string{"serve", "--admin", "127.0.0.1:0", "--data-dir", sharedServer.dir}
		sharedServer.start()
	})
	return sharedServer.address
}

func TestMain(m *testing.M) {
	status := m.Run()
	if sharedServer != nil {
		sharedServer.kill()
		_ = os.RemoveAll(filepath.Dir(sharedServer.dir))
	}
	os.Exit(status)
}

// messagesOf is what a session gets, acknowledged at once.
func messagesOf(t *testing.T, client *mqtt.SessionClient) <-chan *mqtt.Message {
	messages := make(chan *mqtt.Message, 10_000)
	t.Cleanup(client.RegisterMessageHandler(func(_ context.Context, message *mqtt.Message) {
		message.Ack()
		messages <- message
	}))
	return messages
}
