// Command chronos is a node of the timer service: it takes timers over HTTP,
// keeps them in Redis, and calls back when they are due. It is configured by the
// environment alone; `chronos help` lists the variables.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

func main() {
	if len(os.Args) > 1 {
		os.Exit(command(os.Args[1:], os.Stdout, os.Stderr))
	}
	redis.SetLogger(quiet{}) // every error it logs is returned to us too
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, stop := context.WithCancel(context.Background())
	go endBySignal(stop) // ends with the process
	if err := run(ctx, os.Environ(), os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "chronos:", err)
		os.Exit(1)
	}
}

// gcPercent lets the heap grow to five times what lives: that is little, so a
// tenth of the processor time under load is cheaper than the memory.
const gcPercent = 400

// sameRequest is how far apart two signals may be to count as one: timeout(1) and
// some supervisors signal a process and its group, so that it gets each twice.
const sameRequest = 250 * time.Millisecond

// endBySignal stops at the first signal and exits at the second.
func endBySignal(stop func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	<-signals
	stop()
	for first := time.Now(); time.Since(first) < sameRequest; {
		<-signals
	}
	fmt.Fprintln(os.Stderr, "second signal: ending at once; callbacks under way are taken over when their leases end")
	os.Exit(1) //nolint:revive // deep-exit: to end at once is what was asked for
}

// quiet keeps go-redis from writing to standard error past our log.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}
