// Command chronos is a node of the timer service, and the command line that asks nodes. A node takes
// timers over HTTP, keeps the timers in Redis, and calls back when timers are due. Only environment
// variables configure the node; `chronos config variables` lists the variables.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"chronos/cmd/chronos/cli"
	"chronos/cmd/internal/process"
)

func main() { os.Exit(chronos()) }

// chronos carries out the command line, and returns the exit status.
func chronos() int {
	line := cli.CLI{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Environ: os.Environ(), Now: time.Now, Node: runNode}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process
	defer stop()
	return line.Run(ctx, os.Args[1:])
}

// runNode runs a node until the node ends, and returns the exit status.
func runNode() int {
	// The live data is little, so the memory is worth less than the processor time that is saved, a
	// tenth under load.
	const gcPercent = 400
	return process.Main("chronos", "callbacks under way are taken over when their leases end", gcPercent, run)
}
