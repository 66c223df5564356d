// Command load is the load test behind `make load`. The command builds the node, the receiver and (the first time) k6.
// The command starts a node with a Redis of its own in a temporary directory, and a receiver that checks. Then a
// scenario runs: interim or registration by k6, or steady by a generator of its own. The result is printed as a
// Markdown table.
//
// The exit status is 1 if an answer or a callback was wrong, and 2 if the test could not be run. Status 3 means that
// the run did too little to prove anything. Logs and raw figures are left in loadtest/out. Variables that begin with
// CHRONOS_ reach the node, so CHRONOS_REDIS makes the node use a different store.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"chronos/loadtest/child"
	"chronos/loadtest/fakenode"
)

const (
	buildLimit = 15 * time.Minute // k6 is large
	spareLimit = 2 * time.Minute  // for all steps beside the load itself
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// options are the flags of the command.
type options struct {
	root     string // of the repository
	scenario scenario
	rate     int // operations a second
	duration time.Duration
	bug      fakenode.Bug
	fake     bool
}

func (o *options) bin(name string) string { return filepath.Join(o.root, ".bin", name) }

func (o *options) out(name string) string { return filepath.Join(o.root, "loadtest", "out", name) }

func parseOptions(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("load", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.root, "root", "..", "`folder` of the repository")
	name := flags.String("scenario", scenarios()[0].name, "`name`: "+scenarioNames())
	flags.IntVar(&o.rate, "rate", 500, "operations a second")
	flags.DurationVar(&o.duration, "duration", time.Minute, "of the load, at most 10m")
	flags.Func("fake", fmt.Sprintf("test the test: instead of the node use one with a `bug`: none or one of %q", fakenode.Bugs()),
		func(name string) error {
			o.fake, o.bug = true, fakenode.Bug(name)
			if name == "none" {
				o.bug = fakenode.None
			} else if !slices.Contains(fakenode.Bugs(), o.bug) {
				return errors.New("no such bug")
			}
			return nil
		})
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	var err error
	if o.scenario, err = scenarioNamed(*name); err != nil {
		return o, fmt.Errorf("read arguments: %w", err)
	}
	if flags.NArg() > 0 || o.rate < 1 || o.duration < time.Second || o.duration > 10*time.Minute {
		return o, errors.New("read arguments: no arguments but flags, -rate from 1, -duration 1s to 10m")
	}
	root, err := filepath.Abs(o.root)
	if err != nil {
		return o, fmt.Errorf("read arguments: %w", err)
	}
	o.root = root
	return o, nil
}

// run does the whole test and returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parseOptions(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err == nil {
		err = build(ctx, &o, stderr)
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return 2
	}
	_, _ = fmt.Fprintf(stderr, "%d operations a second for %s\n", o.rate, o.duration)
	r, err := measure(ctx, &o)
	if r != nil {
		err = errors.Join(err, r.write(stdout))
	}
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "%v\nthe logs are in %s\n", err, o.out(""))
		return 2
	}
	switch {
	case !r.right():
		return 1
	case !r.enough():
		return 3
	}
	return 0
}

// build compiles the programs. A program that is up to date costs a second or two.
func build(ctx context.Context, o *options, stderr io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, buildLimit)
	defer cancel()
	if err := os.MkdirAll(o.out(""), 0o755); err != nil {
		return fmt.Errorf("build: %w", err)
	}
	if _, err := os.Stat(o.bin("k6")); err != nil && !o.scenario.own {
		_, _ = fmt.Fprintln(stderr, "building k6, which takes minutes the first time")
	}
	for _, target := range []struct{ name, folder, pkg string }{
		{"chronos", ".", "./cmd/chronos"},
		{"receiver", "loadtest", "./receiver"},
		{"k6", "loadtest/k6", "go.k6.io/k6"},
	} {
		if o.fake && target.name == "chronos" || o.scenario.own && target.name == "k6" {
			continue
		}
		cmd := child.Command(ctx, "go", "build", "-trimpath", "-o", o.bin(target.name), target.pkg)
		cmd.Dir = filepath.Join(o.root, target.folder)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if output, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", target.name, err, output)
		}
	}
	return nil
}
