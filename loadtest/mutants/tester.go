package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// tester runs tests on the product with a bug.
type tester struct {
	root, scratch string
	timeout       time.Duration // for a bug
	skip          string        // tests left out of the suite
}

// result is the outcome of the tests with a bug.
type result struct {
	bug      bug
	caughtBy caught
	own      bool // caught by a test that was written because of the bug
	took     time.Duration
	err      error
}

// caught names the test that noticed a bug; zero if no test did.
type caught struct{ Package, Test string }

// suite is the quick suite, the cheapest first.
func suite() []string {
	return []string{"lua", "scheduler", "scheduler/...", "redisstore/...", "api/...", "cmd/chronos/simtest"}
}

// errSurvived means that the whole suite passes with a bug.
var errSurvived = errors.New("SURVIVED")

// checkHints runs the hinted tests without a bug: a test that fails anyway proves nothing.
func (t *tester) checkHints(ctx context.Context, some []bug) error {
	done := map[hint]bool{}
	binaries := map[string]string{}
	var errs []error
	for _, b := range some {
		for _, h := range b.Hints {
			h.Own = false
			if done[h] {
				continue
			}
			done[h] = true
			if binaries[h.Package] == "" {
				binary := filepath.Join(t.scratch, strings.ReplaceAll(h.Package, "/", "-")+".test")
				build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-o", binary, "./"+h.Package)
				build.Dir = t.root
				if said, err := build.CombinedOutput(); err != nil {
					return fmt.Errorf("build the tests of %s: %w\n%s", h.Package, err, said)
				}
				binaries[h.Package] = binary
			}
			test := exec.CommandContext(ctx, binaries[h.Package], "-test.run="+h.Run, "-test.count=1", "-test.timeout=5m") //nolint:gosec // what was built here
			test.Dir = filepath.Join(t.root, h.Package)
			said, err := test.CombinedOutput()
			switch {
			case err != nil:
				errs = append(errs, fmt.Errorf("without a bug: tests %s of %s: %w\n%s", h.Run, h.Package, err, said))
			case strings.Contains(string(said), "no tests to run"):
				errs = append(errs, fmt.Errorf("bug %s: %s has no tests %s", b.Name, h.Package, h.Run))
			}
		}
	}
	return errors.Join(errs...)
}

// testAll tests up to parallel bugs at a time, and prints each result.
func (t *tester) testAll(ctx context.Context, p *product, some []bug, parallel int, out io.Writer) []result {
	results := make([]result, len(some))
	turns := make(chan struct{}, max(parallel, 1))
	var mu sync.Mutex // guards out
	var testing sync.WaitGroup
	for i := range some {
		turns <- struct{}{}
		testing.Go(func() {
			defer func() { <-turns }()
			results[i] = t.test(ctx, p, &some[i])
			mu.Lock()
			defer mu.Unlock()
			_, _ = fmt.Fprintln(out, results[i].line())
		})
	}
	testing.Wait()
	return results
}

// test finds the test that notices the bug: the hinted tests first, and then the suite.
func (t *tester) test(ctx context.Context, p *product, b *bug) result {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	r := result{bug: *b}
	overlay, err := t.overlay(p, b)
	if err != nil {
		r.err = err
		return r
	}
	for _, h := range b.Hints {
		if r.caughtBy, r.err = t.goTest(ctx, overlay, h.Package, "-count=1", "-run="+h.Run); r.err != nil || r.caughtBy != (caught{}) {
			r.own, r.took = h.Own, time.Since(began)
			return r
		}
	}
	for _, packages := range suite() {
		flags := []string{"-skip=" + t.skip}
		if packages == "cmd/chronos/simtest" {
			flags = append(flags, "-sim.seed=1", "-sim.seeds=10") // a fresh seed may or may not notice the bug
		}
		if r.caughtBy, r.err = t.goTest(ctx, overlay, packages, flags...); r.err != nil || r.caughtBy != (caught{}) {
			r.took = time.Since(began)
			return r
		}
	}
	r.took, r.err = time.Since(began), errSurvived
	return r
}

// overlay writes the changed files, and the list of the changed files for the compiler.
func (t *tester) overlay(p *product, b *bug) (string, error) {
	changed, err := p.mutate(b)
	if err != nil {
		return "", err
	}
	folder := filepath.Join(t.scratch, b.Name)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", fmt.Errorf("make folder: %w", err)
	}
	var list struct{ Replace map[string]string }
	list.Replace = map[string]string{}
	for file, text := range changed {
		at := filepath.Join(folder, strings.ReplaceAll(file, "/", "-"))
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			return "", fmt.Errorf("write changed file: %w", err)
		}
		list.Replace[filepath.Join(t.root, filepath.FromSlash(file))] = at
	}
	text, err := json.Marshal(list)
	if err != nil {
		return "", fmt.Errorf("write overlay: %w", err)
	}
	at := filepath.Join(folder, "overlay.json")
	if err := os.WriteFile(at, text, 0o600); err != nil {
		return "", fmt.Errorf("write overlay: %w", err)
	}
	return at, nil
}

// mostTime bounds the time for the tests of a package. A test that takes longer hangs, and thus has
// noticed the bug.
const mostTime = 8 * time.Minute

// goTest runs the tests of some packages, and returns the first failed test. A bug that does not
// compile is an error.
func (t *tester) goTest(ctx context.Context, overlay, packages string, flags ...string) (caught, error) {
	end := mostTime
	if deadline, is := ctx.Deadline(); is {
		end = min(end, time.Until(deadline)+time.Minute) // the process must not outlast the go command by long
	}
	args := append([]string{"test", "-json", "-vet=off", "-ldflags=-s -w", "-failfast", "-overlay=" + overlay, "-timeout=" + end.String(), "./" + packages}, flags...)
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = t.root
	command.WaitDelay = time.Second
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	said, err := command.Output()
	if ctx.Err() != nil {
		return caught{}, fmt.Errorf("stopped in the tests of %s: %w", packages, ctx.Err())
	}
	if err == nil {
		return caught{}, nil
	}
	by, failed := readEvents(said)
	if failed != nil {
		return caught{}, failed
	}
	if by == (caught{}) {
		return caught{}, fmt.Errorf("go test %s: %w\n%s", packages, err, said)
	}
	return by, nil
}
