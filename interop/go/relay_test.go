package interop

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// relay passes bytes between clients and the first of its targets that takes a connection, as a load balancer would. A test cuts
// connections without touching client or server.
type relay struct {
	address  string
	listener net.Listener

	mu      sync.Mutex
	targets []string
	// The connections to servers, by the connections of clients that they belong to.
	open   map[*net.TCPConn]net.Conn
	closed bool
}

func startRelay(t *testing.T, targets ...string) *relay {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &relay{
		address:  listener.Addr().String(),
		listener: listener,
		targets:  targets,
		open:     map[*net.TCPConn]net.Conn{},
	}
	go r.accept()
	t.Cleanup(func() {
		_ = listener.Close()
		r.refuse(true)
	})
	return r
}

// cut ends all connections that pass through at this moment. New ones are taken at once.
//
// The server sees closed connections. A client reads the end of its stream, and its last writes are lost without an error:
// one that fails while the SDK sends its stored messages again makes it hang (interop/README.md).
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for client, server := range r.open {
		_ = server.Close()
		_ = client.CloseWrite()
	}
	clear(r.open)
}

// refuse cuts all connections, and ends new ones at once until it is told otherwise.
func (r *relay) refuse(closed bool) {
	r.mu.Lock()
	r.closed = closed
	r.mu.Unlock()
	if closed {
		r.cut()
	}
}

func (r *relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		go r.pass(client.(*net.TCPConn))
	}
}

// pass copies in both directions until the server or a cut ends the connection, and then waits for the client to close its side.
func (r *relay) pass(client *net.TCPConn) {
	defer client.Close()
	server := r.dial()
	if server == nil {
		return
	}
	defer server.Close()
	if !r.add(client, server) {
		return
	}
	defer r.remove(client)
	go func() {
		_, _ = io.Copy(client, server)
		_ = client.CloseWrite()
	}()
	_, _ = io.Copy(server, client)
	_ = server.Close()
	_, _ = io.Copy(io.Discard, client)
}

func (r *relay) dial() net.Conn {
	r.mu.Lock()
	targets := r.targets
	r.mu.Unlock()
	for _, target := range targets {
		if server, err := net.Dial("tcp", target); err == nil {
			return server
		}
	}
	return nil
}

func (r *relay) add(client *net.TCPConn, server net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.open[client] = server
	return true
}

func (r *relay) remove(client *net.TCPConn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, client)
}
