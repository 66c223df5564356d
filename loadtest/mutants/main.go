// Command mutants puts deliberate bugs into the product, one after another, and prints the test of
// the quick suite that notices each bug. If no test notices a bug, the suite has a hole: the
// command then ends with status 1. No file of the work tree is changed, since the changed files go
// to the compiler as an overlay.
//
//	go run -C loadtest ./mutants -list
//	go run -C loadtest ./mutants -only skew-zero,no-jitter
//	go run -C loadtest ./mutants -write   # writes the table of docs/testing.md
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
	"strings"
	"time"

	"chronos/loadtest/page"
)

type options struct {
	root     string
	only     string
	list     bool
	write    bool
	needed   bool
	timeout  time.Duration
	parallel int
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.StringVar(&o.root, "root", "..", "folder of the main module")
	flags.StringVar(&o.only, "only", "", "names of bugs, separated by commas; all if not given")
	flags.BoolVar(&o.list, "list", false, "list the bugs and run nothing")
	flags.BoolVar(&o.write, "write", false, "write the table into docs/testing.md")
	flags.BoolVar(&o.needed, "needed", false, "run no test that was written because of a bug, to see which of these tests are needed")
	flags.DurationVar(&o.timeout, "timeout", 10*time.Minute, "time for all tests of one bug")
	flags.IntVar(&o.parallel, "parallel", 1, "so many bugs at a time")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.write && (o.only != "" || o.needed) {
		return o, errors.New("-write needs a run of all bugs with all tests: leave out -only and -needed")
	}
	o.root, err = filepath.Abs(o.root)
	return o, err
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	some, unknown := chosen(bugs(), o.only)
	if len(unknown) > 0 {
		return fmt.Errorf("unknown bugs: %s", strings.Join(unknown, ", "))
	}
	if o.list {
		for _, b := range some {
			_, _ = fmt.Fprintf(out, "%-32s %s\n", b.Name, b.What)
		}
		return nil
	}
	p, err := readProduct(o.root)
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return fmt.Errorf("make folder for changed files: %w", err)
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	t := &tester{root: o.root, scratch: scratch, timeout: o.timeout, skip: "^TestScriptsAreTheFiles$"} // the test reads files without the bug
	if o.needed {
		some, t.skip = withoutOwn(some, t.skip)
	}
	began := time.Now()
	if err := t.checkHints(ctx, some); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "all hinted tests pass without a bug (%v)\n", time.Since(began).Round(time.Second))
	results := t.testAll(ctx, p, some, o.parallel, out)
	_, _ = fmt.Fprintf(out, "%d bugs in %v\n", len(results), time.Since(began).Round(time.Second))
	if err := failures(results); err != nil {
		return err
	}
	if o.write {
		return page.WriteTable(filepath.Join(o.root, "docs", "testing.md"), "make mutants", table(results))
	}
	return nil
}
