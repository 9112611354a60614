package interop

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// node is a `statehold serve` of one test's own. kill and start in between keep its data and its address.
type node struct {
	t       *testing.T
	dir     string
	args    []string
	command *exec.Cmd
	// Where clients connect; known after the first start.
	address string
	// Of the admin pages.
	admin string
	// The settings say where.
	listensAsSet bool
}

// startServer runs a node that is on its own until the test ends.
func startServer(t *testing.T, settings string) *node {
	n := newNode(t, t.TempDir(), "node", settings)
	n.start()
	return n
}

// startCluster runs three nodes that form a cluster.
func startCluster(t *testing.T, settings string) []*node {
	dir := t.TempDir()
	var peers []string
	for _, port := range freePorts(t, 3) {
		peers = append(peers, fmt.Sprintf("127.0.0.1:%d", port))
	}
	var nodes []*node
	for number, peer := range peers {
		n := newNode(t, dir, fmt.Sprintf("node%d", number), settings)
		n.args = append(n.args, "--peer-listen", peer, "--join", strings.Join(peers, ","), "--cluster-size", "3", "--insecure-peers")
		nodes = append(nodes, n)
	}
	// A node is ready when the cluster is formed, so all are started before one is waited for.
	waits := make([]func(), 0, len(nodes))
	for _, n := range nodes {
		waits = append(waits, n.begin())
	}
	for _, wait := range waits {
		wait()
	}
	return nodes
}

func newNode(t *testing.T, dir, name, settings string) *node {
	file := filepath.Join(dir, name+".toml")
	require.NoError(t, os.WriteFile(file, []byte(settings), 0o600))
	n := &node{t: t, dir: filepath.Join(dir, name), address: "127.0.0.1:0", listensAsSet: strings.Contains(settings, "[[listeners]]")}
	n.args = []string{"serve", "--admin", "127.0.0.1:0", "--data-dir", n.dir, "--config", file}
	t.Cleanup(func() {
		n.kill()
		if t.Failed() {
			log, _ := os.ReadFile(n.dir + ".log")
			t.Logf("the log of %s:\n%s", name, log)
		}
	})
	return n
}

func (n *node) start() { n.begin()() }

// run runs another command of the binary to its end; what it writes to its standard output and error.
func run(t *testing.T, args ...string) (output, errors string) {
	command := exec.Command(binary(t), args...)
	var out, err strings.Builder
	command.Stdout, command.Stderr = &out, &err
	require.NoError(t, command.Run(), "%s", &err)
	return out.String(), err.String()
}

// begin starts the process. What it returns waits until the node is ready.
func (n *node) begin() func() {
	log, err := os.OpenFile(n.dir+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(n.t, err)
	defer log.Close()
	args := n.args
	if !n.listensAsSet {
		args = append(args, "--listen", n.address)
	}
	n.command = exec.Command(binary(n.t), args...)
	n.command.Stderr = log
	output, err := n.command.StdoutPipe()
	require.NoError(n.t, err)
	require.NoError(n.t, n.command.Start())
	return func() {
		lines := bufio.NewScanner(output)
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), "statehold ready ") {
				n.address, n.admin = named(lines.Text(), "mqtt"), named(lines.Text(), "admin")
				return
			}
		}
		require.FailNow(n.t, "the server ended before it was ready")
	}
}

// kill ends the process without a warning.
func (n *node) kill() {
	if n.command != nil {
		_ = n.command.Process.Kill()
		_ = n.command.Wait()
		n.command = nil
	}
}

// named is the first address of a kind in the line that says that a server is ready.
func named(line, kind string) string {
	for word := range strings.FieldsSeq(line) {
		if addresses, ok := strings.CutPrefix(word, kind+"="); ok {
			first, _, _ := strings.Cut(addresses, ",")
			return first
		}
	}
	return ""
}

func binary(t *testing.T) string {
	if named := os.Getenv("STATEHOLD_BIN"); named != "" {
		return named
	}
	for _, profile := range []string{"release", "debug"} {
		path := filepath.Join("..", "..", "target", profile, "statehold")
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	require.FailNow(t, "no binary: run cargo build first, or name one in STATEHOLD_BIN")
	return ""
}

// freePorts finds ports below those that the system chooses by itself: nodes have to know each other's before they are started.
func freePorts(t *testing.T, count int) []int {
	ports := map[int]bool{}
	for len(ports) < count {
		port := 20_000 + rand.IntN(12_000)
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			require.NoError(t, listener.Close())
			ports[port] = true
		}
	}
	found := make([]int, 0, count)
	for port := range ports {
		found = append(found, port)
	}
	return found
}
