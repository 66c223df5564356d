// Command chronos is a node of the timer service. A node takes timers over HTTP, keeps
// the timers in Redis, and calls back when timers are due. Only environment variables
// configure the node; `chronos help` lists the variables.
package main

import (
	"os"

	"chronos/cmd/internal/process"
)

func main() {
	if len(os.Args) > 1 {
		os.Exit(command(os.Args[1:], os.Stdout, os.Stderr))
	}
	// The live data is little, so the memory is worth less than the processor time that is saved, a
	// tenth under load.
	const gcPercent = 400
	os.Exit(process.Main("chronos", "callbacks under way are taken over when their leases end", gcPercent, run))
}
