// Package freeport finds ports for servers of tests and load tests.
package freeport

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
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

// Pick is an unused port of the loopback interface. The system gives the port to no client.
func Pick() (int, error) {
	for range 100 {
		port := first + rand.N(ports)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))) //nolint:noctx // at once
		if err == nil {
			return port, l.Close()
		}
	}
	return 0, errNone
}
