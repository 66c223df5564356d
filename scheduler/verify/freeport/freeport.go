// Package freeport finds ports for servers of tests and load tests.
package freeport

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// The system gives ports from forClients on to clients that connect. A server that starts, or starts
// again, on such a port may find the port taken by a client of any process. A Redis of a Cluster
// listens on a second port, busOffset above its first. No second port is a port that Pick returns.
const (
	first, ports = 12_000, 10_000
	busOffset    = 10_000
	forClients   = 32_768
)

// The build fails if a port of a Redis is a port for clients, or a port that Pick returns.
const (
	_ = uint(forClients - (first + ports + busOffset))
	_ = uint(busOffset - ports)
)

var errNone = errors.New("no free port was found")

// reserved keep the UDP sockets of the ports that this process has picked.
//
//nolint:gochecknoglobals // The ports belong to the process.
var reserved struct {
	sync.Mutex
	sockets []net.PacketConn
}

// Pick is an unused port of the loopback interface. The system gives the port to no client, and while this process
// lives Pick returns the port no more, in any process: whoever used a server that was killed goes on trying to reach
// the port, and must not find the server of another test there.
func Pick() (int, error) {
	for range 100 {
		port := first + rand.N(ports)
		if reserve(net.JoinHostPort("127.0.0.1", strconv.Itoa(port))) {
			return port, nil
		}
	}
	return 0, errNone
}

// reserve holds an address by UDP, which no server uses, and reports whether the address is unused by TCP.
func reserve(address string) bool {
	socket, err := net.ListenPacket("udp", address) //nolint:noctx // at once
	if err != nil {
		return false
	}
	l, err := net.Listen("tcp", address) //nolint:noctx // at once
	if err == nil {
		err = l.Close()
	}
	if err != nil {
		_ = socket.Close() // it has sent nothing
		return false
	}
	reserved.Lock()
	defer reserved.Unlock()
	reserved.sockets = append(reserved.sockets, socket)
	return true
}
