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
	open    map[net.Conn]struct{}
	closed  bool
}

func startRelay(t *testing.T, targets ...string) *relay {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &relay{
		address:  listener.Addr().String(),
		listener: listener,
		targets:  targets,
		open:     map[net.Conn]struct{}{},
	}
	go r.accept()
	t.Cleanup(func() {
		_ = listener.Close()
		r.refuse(true)
	})
	return r
}

// cut ends all connections that pass through at this moment. New ones are taken at once.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for conn := range r.open {
		_ = conn.Close()
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
		go r.pass(client)
	}
}

func (r *relay) pass(client net.Conn) {
	defer client.Close()
	server := r.dial()
	if server == nil {
		return
	}
	defer server.Close()
	if !r.add(client, server) {
		return
	}
	ended := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		go func() {
			_, _ = io.Copy(way[0], way[1])
			ended <- struct{}{}
		}()
	}
	<-ended
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

func (r *relay) add(conns ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, conn := range conns {
		r.open[conn] = struct{}{}
	}
	return !r.closed
}
