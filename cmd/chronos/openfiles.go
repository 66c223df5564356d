package main

import (
	"fmt"
	"log/slog"
	"math"
	"syscall"

	"chronos/api/transport"
)

// How many descriptors a node keeps for Redis, its listeners, files and the
// admin listener, and the least that must be left for connections.
const (
	ownFiles   = 256
	leastFiles = 256
)

// files says what the open files that the system allows are used for.
type files struct {
	connections int // of clients
	slots       int // callbacks under way, one connection each
	idle        int // connections kept for callbacks
}

// shareFiles divides limit among clients and callbacks, so that neither takes
// from the other or from Redis and health checks what they need. Each wants no
// more than its setting; where that is too much together both get half.
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

// maxIdleCallbacks is how many idle connections for callbacks are of use.
const maxIdleCallbacks = 4096

// openFiles is shareFiles for this process; it warns if something gets less than
// it wants.
func openFiles(slots int, log *slog.Logger) (files, error) {
	limit := openFilesLimit()
	shared, err := shareFiles(limit, slots)
	if err == nil && (shared.slots < slots || shared.connections < transport.DefaultMaxConnections) {
		log.Warn("few open files are allowed, so fewer connections and callbacks are; raise the limit (ulimit -n, LimitNOFILE)",
			"open_files", limit, "connections", shared.connections, "callbacks", shared.slots)
	}
	return shared, err
}

// openFilesLimit is how many files this process may have open. The Go runtime
// has raised it to what the system allows already.
func openFilesLimit() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return math.MaxUint64
	}
	return limit.Cur
}
