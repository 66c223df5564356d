// Command receiver takes callbacks. Without -check, the command prints each callback in a line. With -check, the
// command compares callbacks with the operations that a load generator makes known. The exit status is 1 after a
// violation: a callback was early, late, missing, double, altered, unasked, or came after an answer. Package check
// defines the violations.
//
// Callbacks may be POSTed to any path outside /control/. The command also answers:
//
//	POST /control/expect            operations, one JSON object a line: see check.Operation
//	GET  /control/live              the timers that were created and not ended, as a JSON array
//	GET  /control/report            the report so far
//	POST /control/finish?grace=3s   goes on for the grace (at most 1 m), answers with the report, and ends
//
// An interrupt or -for ends the command, too. Status 2 means that the command could not do its work.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"chronos/loadtest/check"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// options are the flags of the command.
type options struct {
	listen       string
	print        bool
	check        bool
	limit        time.Duration
	delay        time.Duration
	failPercent  float64
	minCallbacks int64
	history      string
	checker      check.Config
}

func parseOptions(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("receiver", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.listen, "listen", "127.0.0.1:9000", "`address` to listen on; port 0 picks a free one")
	flags.BoolVar(&o.check, "check", false, "hold callbacks against what /control/expect tells; none at all is a failure too")
	flags.BoolVar(&o.print, "print", false, "print each callback (always done without -check)")
	flags.DurationVar(&o.limit, "for", 0, "end after this `time`; 0: only when told")
	flags.DurationVar(&o.checker.Bound, "bound", time.Second, "how `late` a callback may be")
	flags.IntVar(&o.checker.MaxSessions, "max-timers", 1<<20, "how many timers to follow at most")
	flags.Int64Var(&o.minCallbacks, "min-callbacks", 1, "fewer are a failure, with -check")
	flags.DurationVar(&o.delay, "delay", 0, "wait this `time` before each answer")
	flags.Float64Var(&o.failPercent, "fail-percent", 0, "answer 500 to this `share` of the callbacks")
	flags.StringVar(&o.history, "history", "", "write what comes and what is told to this `file`, for the judge")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("read arguments: %q is no flag", flags.Arg(0))
	}
	if o.failPercent < 0 || o.failPercent > 100 || o.delay < 0 || o.limit < 0 {
		return o, errors.New("read arguments: -fail-percent must be 0 to 100, -delay and -for not negative")
	}
	o.checker.Planned = o.check
	if !o.check {
		o.print, o.minCallbacks = true, 0
	}
	return o, nil
}

// run serves until ctx ends, the time is over, or /control/finish has been answered. run returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parseOptions(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return 2
	}
	if o.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.limit)
		defer cancel()
	}
	server := newServer(o, stdout)
	if o.history != "" {
		if server.journal, err = newJournal(o.history); err != nil {
			_, _ = fmt.Fprintln(stderr, err)
			return 2
		}
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.listen)
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "listen: %v\n", err)
		return 2
	}
	_, _ = fmt.Fprintf(stdout, "receiver listens on http://%s\n", listener.Addr())
	report, err := server.serve(ctx, listener)
	if err = errors.Join(err, server.journal.end()); err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return 2
	}
	if !o.check {
		return 0 // without -check, nothing is judged
	}
	if err := report.WriteText(stdout); err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return 2
	}
	if !report.Passed {
		return 1
	}
	return 0
}
