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

// subjectLimit bounds the time of a subject in a run. The subjects of the claim cost take the
// longest, because they fill Redis with millions of timers.
const subjectLimit = 10 * time.Minute

// section is a kind of measurement, with the subjects to compare.
type section struct {
	name     string
	table    figure.Table
	once     bool // measured in the first run alone: the section takes long and hardly varies
	subjects []subject
}

// subject is a system or a setup to compare. measure reports figures through add.
type subject struct {
	name    string
	peer    bool // measured with -peers only
	measure func(ctx context.Context, b *bench, add func(metric string, value float64)) error
}

// errWrong means that an answer or a callback was wrong. Any further error means that the bench
// could not measure something.
var errWrong = errors.New("wrong")

// errAbsent means that the bench can't measure something here. errAbsent is no failure.
var errAbsent = errors.New("not measured")

// bench is one run of the command.
type bench struct {
	options
	stdout, stderr io.Writer
	dir            string // temporary, for this bench only
	self           string // path of this binary, to start the roles
	machine        machine.Description

	figures figure.Figures
	notes   []string // remarks on the results: measurements left out, failed or wrong, and the tuned concurrency
	wrong   int      // measurements with a wrong answer or callback
	failed  int      // measurements that failed

	concurrency map[string]int // by peer; set by tune
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

// prepare describes the machine, and sets up the peers.
func (b *bench) prepare(ctx context.Context) error {
	b.machine = machine.Describe(ctx)
	if b.peers {
		return b.installBullMQ(ctx)
	}
	return nil
}

// measure does all runs. Each run goes through all sections and subjects in turn, so that a
// disturbance of the machine hits all subjects alike.
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
		why = "could not be measured" // the cause may contain paths and stays on the terminal
	}
	b.notes = append(b.notes, fmt.Sprintf("run %d, %s, %s: %s", run+1, s.name, sub.name, why))
}

// status is the exit status of the command.
func (b *bench) status() int {
	switch {
	case b.wrong > 0:
		return 1
	case b.failed > 0 || len(b.figures.List) == 0:
		return 2
	}
	return 0
}

// size is n, or n/10 with -quick.
func (b *bench) size(n int) int {
	if b.quick {
		return n / 10
	}
	return n
}

// span is d, or d/5 with -quick.
func (b *bench) span(d time.Duration) time.Duration {
	if b.quick {
		return d / 5
	}
	return d
}
