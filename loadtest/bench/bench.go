//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"chronos/loadtest/bench/figure"
	"chronos/loadtest/bench/machine"
)

// subjectLimit is how long one subject may take in one run; that of the claim
// cost, which fills millions, is the longest.
const subjectLimit = 10 * time.Minute

// section is a kind of measurement with all that is compared in it.
type section struct {
	name     string
	table    figure.Table
	once     bool // in the first run alone: it takes long and hardly varies
	subjects []subject
}

// subject is one of those that are compared. measure adds its figures by add.
type subject struct {
	name    string
	peer    bool // measured with -peers alone
	measure func(ctx context.Context, b *bench, add func(metric string, value float64)) error
}

// errWrong is an answer or a callback that was not right. Everything else that
// goes amiss means that something could not be measured.
var errWrong = errors.New("wrong")

// errAbsent is something that can't be measured here, which is no failure.
var errAbsent = errors.New("not measured")

// bench is one run of the command.
type bench struct {
	options
	stdout, stderr io.Writer
	dir            string // temporary, ours alone
	self           string // the binary that plays the roles
	machine        machine.Description

	figures figure.Figures
	notes   []string // what was not measured, or was wrong
	wrong   int      // answers and callbacks that were not right
	failed  int      // measurements that could not be made

	concurrency map[string]int // of peers, once the best is found; see tune
}

func newBench(o options, stdout, stderr io.Writer) (*bench, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find own binary: %w", err)
	}
	dir, err := os.MkdirTemp("", "chronos-bench-")
	if err != nil {
		return nil, fmt.Errorf("make temporary directory: %w", err)
	}
	return &bench{options: o, stdout: stdout, stderr: stderr, dir: dir, self: self, concurrency: make(map[string]int)}, nil
}

func (b *bench) close() { _ = os.RemoveAll(b.dir) }

// prepare looks at the machine, and sets up the peers.
func (b *bench) prepare(ctx context.Context) error {
	b.machine = machine.Describe(ctx)
	if b.peers {
		return b.installBullMQ(ctx)
	}
	return nil
}

// measure does all runs: each of all sections and subjects in turn, so that
// what disturbs the machine for a while disturbs all alike.
func (b *bench) measure(ctx context.Context) {
	for run := range b.runs {
		for _, s := range sections() {
			if !slices.Contains(b.only, s.name) || s.once && run > 0 {
				continue
			}
			for i := range s.subjects {
				if ctx.Err() != nil {
					return
				}
				sub := &s.subjects[i]
				if (!sub.peer || b.peers) && strings.Contains(sub.name, b.subject) {
					b.measureOne(ctx, run, &s, sub)
				}
			}
		}
	}
}

func (b *bench) measureOne(ctx context.Context, run int, s *section, sub *subject) {
	ctx, cancel := context.WithTimeout(ctx, subjectLimit)
	defer cancel()
	begin := time.Now()
	_, _ = fmt.Fprintf(b.stderr, "run %d of %d: %s, %s", run+1, b.runs, s.name, sub.name)
	err := sub.measure(ctx, b, func(metric string, value float64) {
		b.figures.Add(s.name, sub.name, metric, value)
		_, _ = fmt.Fprintf(b.stderr, ", %s %s", metric, figure.Number(value))
	})
	_, _ = fmt.Fprintf(b.stderr, " (%.1f s)\n", time.Since(begin).Seconds())
	if err == nil {
		return
	}
	_, _ = fmt.Fprintln(b.stderr, err)
	why := err.Error()
	switch {
	case errors.Is(err, errAbsent):
	case errors.Is(err, errWrong):
		b.wrong++
	default:
		b.failed++
		why = "could not be measured" // why it could not, with its paths, stays on the terminal
	}
	b.notes = append(b.notes, fmt.Sprintf("run %d, %s, %s: %s", run+1, s.name, sub.name, why))
}

// status is what the command ends with.
func (b *bench) status() int {
	switch {
	case b.wrong > 0:
		return 1
	case b.failed > 0 || len(b.figures.List) == 0:
		return 2
	}
	return 0
}

// size is n, or with -quick a tenth of it.
func (b *bench) size(n int) int {
	if b.quick {
		return n / 10
	}
	return n
}

// span is d, or with -quick a fifth of it.
func (b *bench) span(d time.Duration) time.Duration {
	if b.quick {
		return d / 5
	}
	return d
}
