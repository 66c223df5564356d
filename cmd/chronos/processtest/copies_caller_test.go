package processtest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// callers finds the node that made a callback by the connection: no header of a callback names
// the node. The node stays unknown on a machine without /proc, or if the connection was
// opened and closed between two looks.
type callers struct {
	cluster  *cluster
	receiver string // the port, as in /proc/net/tcp
	nodes    chan map[string]string
}

// watchCallers looks now and then at the connections of the nodes to the receiver. The looking
// ends once the channel nodes of the result is read, or with the test.
func (c *cluster) watchCallers(receiver string) *callers {
	w := &callers{cluster: c, receiver: hexPort(receiver), nodes: make(chan map[string]string)}
	go func() {
		nodes := make(map[string]string) // by the client's port
		for {
			w.look(nodes)
			select {
			case w.nodes <- nodes:
				return
			case <-c.t.Context().Done():
				return
			case <-time.After(200 * time.Millisecond):
			}
		}
	}()
	return w
}

// look notes the nodes of all connections to the receiver.
func (w *callers) look(nodes map[string]string) {
	table, _ := os.ReadFile("/proc/net/tcp")
	ports := make(map[string]string) // by socket
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); len(fields) > 9 && strings.HasSuffix(fields[2], w.receiver) {
			ports["socket:["+fields[9]+"]"] = fields[1][strings.LastIndexByte(fields[1], ':'):]
		}
	}
	for _, m := range w.cluster.nodes {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", m.PID()))
		for _, file := range files {
			socket, _ := os.Readlink(file)
			if port, calls := ports[socket]; calls {
				nodes[port] = m.name
			}
		}
	}
}

// hexPort is how /proc/net/tcp writes the port of an address.
func hexPort(address string) string {
	_, text, _ := net.SplitHostPort(address)
	port, _ := strconv.Atoi(text)
	return fmt.Sprintf(":%04X", port)
}
