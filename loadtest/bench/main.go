//go:build linux

// Command bench is behind `make bench`. The command measures chronos, the peer asynq and the limits
// of the machine, in turn, in three runs on the same machine. -peers adds BullMQ. The command
// prints medians, their spread and ratios. All is on the loopback interface, in temporary
// directories, and bounded in time. The tables, the values of all runs and charts are written to
// loadtest/results, and the tables in README, docs/benchmarks.md and docs/capacity.md are rewritten.
// The exit status is 1 if an answer or a callback was wrong, and 2 if a measurement failed. The
// command runs on Linux only.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"chronos/loadtest/bench/role"
)

const buildLimit = 5 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// options are the flags of the command.
type options struct {
	root, results string // results "" means that no results are written
	node          string // path of the binary
	build         bool   // build the node first
	subject       string // part of the names of subjects; "" for all
	runs          int
	only          []string
	quick, peers  bool
	profile       bool // take profiles instead of measuring
}

func parseOptions(args []string, stderr io.Writer) (options, error) {
	o := options{only: sectionNames()}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.root, "root", "..", "`folder` of the repository")
	flags.StringVar(&o.results, "results", "", "`folder` for what is written (default loadtest/results, or none if not all is measured)")
	flags.StringVar(&o.node, "node", "", "`binary` of a node to measure, instead of the one that the repository makes")
	flags.IntVar(&o.runs, "runs", 3, "how often everything is measured, in turn")
	flags.BoolVar(&o.quick, "quick", false, "a tenth of the sizes, short durations: to try the bench, not to measure")
	flags.BoolVar(&o.peers, "peers", false, "measure BullMQ too, which takes node and npm")
	flags.BoolVar(&o.profile, "profile", false, "instead of measuring, write summaries of the node's profiles to loadtest/results")
	flags.StringVar(&o.subject, "subject", "", "measure only what has this `text` in its name, such as chronos")
	flags.Func("only", "`names`, separated by commas, of "+strings.Join(o.only, ", "), func(names string) error {
		o.only = strings.Split(names, ",")
		for _, name := range o.only {
			if !slices.Contains(sectionNames(), name) {
				return fmt.Errorf("there is no section named %.20q", name)
			}
		}
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 || o.runs < 1 || o.runs > 20 {
		return o, errors.New("read arguments: no arguments but flags, -runs from 1 to 20")
	}
	var err error
	if o.root, err = filepath.Abs(o.root); err != nil {
		return o, fmt.Errorf("read arguments: %w", err)
	}
	if o.node == "" {
		o.node, o.build = filepath.Join(o.root, ".bin", "chronos"), true
	}
	// A part of the figures must not replace the whole.
	if whole := !o.quick && o.subject == "" && len(o.only) == len(sectionNames()); o.results == "" && whole {
		o.results = resultsOf(o.root)
	}
	return o, nil
}

// resultsOf is the folder for the results of whole measurements.
func resultsOf(root string) string { return filepath.Join(root, "loadtest", "results") }

// run runs the command and returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == "role" {
		if err := role.Run(ctx, args[1:], stdout); err != nil {
			_, _ = fmt.Fprintln(stderr, err)
			return 2
		}
		return 0
	}
	o, err := parseOptions(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err == nil && o.build {
		err = build(ctx, o.root)
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return 2
	}
	b, err := newBench(o, stdout, stderr)
	if err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return 2
	}
	defer b.close()
	if err := b.prepare(ctx); err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return 2
	}
	if o.profile {
		if err := b.profile(ctx); err != nil {
			_, _ = fmt.Fprintln(stderr, err)
			return 2
		}
		return 0
	}
	b.measure(ctx)
	if ctx.Err() != nil {
		_, _ = fmt.Fprintln(stderr, "interrupted: nothing was written")
		return 2
	}
	if err := b.write(); err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return 2
	}
	return b.status()
}

// build compiles the node and the bridge.
func build(ctx context.Context, root string) error {
	ctx, cancel := context.WithTimeout(ctx, buildLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", ".bin/", "./cmd/chronos", "./cmd/chronos-bridge")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build chronos: %w\n%s", err, output)
	}
	return nil
}
