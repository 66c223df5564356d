package main

import (
	"fmt"
	"log/slog"
	"math"
	"syscall"

	"chronos/api/transport"
)

// Descriptors that a node keeps for Redis, listeners, files and the admin listener, and
// the fewest that must be left for connections.
const (
	ownFiles   = 256
	leastFiles = 256
)

// files says how a node uses the open files that the system allows.
type files struct {
	connections int // of clients
	slots       int // callbacks under way, one connection each
	idle        int // connections kept for callbacks
}

// shareFiles divides limit among clients and callbacks, so that neither side uses up the
// files that the other side, Redis and health checks need. Each side wants no more than
// its setting. If both together want too much, each side gets half.
func shareFiles(limit uint64, slots int) (files, error) {
	wanted := files{connections: transport.DefaultMaxConnections, slots: slots, idle: min(slots, maxIdleCallbacks)}
	free := int(min(limit, 1<<30)) - ownFiles
	switch {
	case free < leastFiles:
		return files{}, fmt.Errorf("only %d open files are allowed; a node needs at least %d: raise the limit (ulimit -n, LimitNOFILE)", limit, ownFiles+leastFiles)
	case free >= wanted.connections+wanted.slots+wanted.idle:
		return wanted, nil
	}
	shared := files{connections: min(wanted.connections, free/2)}
	shared.slots = min(wanted.slots, (free-shared.connections)/2)
	shared.idle = min(wanted.idle, free-shared.connections-shared.slots)
	return shared, nil
}

// maxIdleCallbacks is the useful number of idle connections for callbacks.
const maxIdleCallbacks = 4096

// openFiles is shareFiles for this process. A warning is logged if the files are not enough
// for all connections and slots.
func openFiles(slots int, log *slog.Logger) (files, error) {
	limit := openFilesLimit()
	shared, err := shareFiles(limit, slots)
	if err == nil && (shared.slots < slots || shared.connections < transport.DefaultMaxConnections) {
		log.Warn("few open files are allowed, so fewer connections and callbacks are; raise the limit (ulimit -n, LimitNOFILE)",
			"open_files", limit, "connections", shared.connections, "callbacks", shared.slots)
	}
	return shared, err
}

// openFilesLimit is how many files this process may have open. The Go runtime has already
// raised the limit as far as the system allows.
func openFilesLimit() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return math.MaxUint64
	}
	return limit.Cur
}
