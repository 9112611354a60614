package interop

import (
	"net"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheExampleRuns(t *testing.T) {
	host, port, err := net.SplitHostPort(startServer(t, "").address)
	require.NoError(t, err)
	command := exec.Command("go", "run", "./examples/first_steps")
	command.Env = append(os.Environ(), "AIO_BROKER_HOSTNAME="+host, "AIO_BROKER_TCP_PORT="+port, "AIO_MQTT_USE_TLS=false",
		"AIO_MQTT_CLIENT_ID=first-steps", "AIO_MQTT_CLEAN_START=true")
	output, err := command.CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Contains(t, string(output), "door is now open")
	require.Contains(t, string(output), "version is written")
}
