//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"chronos/loadtest/bench/figure"
	"chronos/loadtest/bench/httpgen"
	"chronos/loadtest/child"
)

const (
	connections = 128
	warm        = time.Second
	createSpan  = 8 * time.Second
	openRate    = 5000
	openSpan    = 10 * time.Second

	oursAOF  = "chronos, everysec"
	oursBare = "chronos, no AOF"
	fiberApp = "limit: Fiber answering nothing"
)

func createSection() section {
	return section{
		name: "create",
		table: figure.Table{
			Title: "Create over HTTP, 128 connections",
			Notes: []string{"Closed loop, URI of 46 bytes, opaque of 100, one copy. The generator is one thread."},
			Columns: []figure.Column{
				{Metric: "rate", Title: "requests/s"},
				{Metric: "p50_ms", Title: "p50 ms"}, {Metric: "p99_ms", Title: "p99 ms"},
				{Metric: "node_us", Title: "node, CPU µs each"}, {Metric: "redis_us", Title: "redis-server, CPU µs each"},
			},
			Ours: oursAOF,
		},
		subjects: []subject{
			{name: oursAOF, measure: ours(1, 1, true, createClosed)},
			{name: oursBare, measure: ours(1, 1, false, createClosed)},
			{name: fiberApp, measure: createFiber},
		},
	}
}

func openSection() section {
	return section{
		name: "open",
		table: figure.Table{
			Title: fmt.Sprintf("Create at %s/s, open loop", figure.Number(openRate)),
			Notes: []string{"The time of an answer counts from the instant at which the request should have been sent."},
			Columns: []figure.Column{
				{Metric: "p50_ms", Title: "p50 ms"}, {Metric: "p99_ms", Title: "p99 ms"},
				{Metric: "p999_ms", Title: "p99.9 ms"}, {Metric: "max_ms", Title: "max ms"},
			},
		},
		subjects: []subject{
			{name: oursAOF, measure: ours(1, 1, true, createOpen)},
			{name: oursBare, measure: ours(1, 1, false, createOpen)},
		},
	}
}

// on is a measurement on a running stack.
type on func(ctx context.Context, b *bench, s *stack, add func(string, float64)) error

// ours is a measurement on a fresh stack.
func ours(nodes, shards int, aof bool, do on, more ...string) func(context.Context, *bench, func(string, float64)) error {
	return func(ctx context.Context, b *bench, add func(string, float64)) (err error) {
		s, err := b.start(ctx, nodes, shards, aof, more...)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.stop()) }()
		return do(ctx, b, s, add)
	}
}

// right returns an error if an answer was wrong.
func right(r httpgen.Result, err error) (httpgen.Result, error) {
	if err == nil && r.Wrong > 0 {
		err = fmt.Errorf("%w: %d answers: %w", errWrong, r.Wrong, r.Why)
	}
	return r, err
}

func createConfig(b *bench, addresses []string, copies int, c *cpu) httpgen.Config {
	return httpgen.Config{
		Addresses: addresses, Connections: connections, Warm: b.span(warm), Duration: b.span(createSpan),
		Request: constant("/timers", copied(interval(time.Hour), callbackURI(nowhere, 0), copies)),
		Begin:   c.begin, End: c.end,
	}
}

func createClosed(ctx context.Context, b *bench, s *stack, add func(string, float64)) error {
	node, store := s.costs()
	config := createConfig(b, s.addresses(), s.copies, node)
	config.Begin = func() { node.begin(); store.begin() }
	config.End = func() { node.end(); store.end() }
	r, err := right(httpgen.Run(ctx, config))
	if err := errors.Join(err, node.err, store.err); err != nil {
		return err
	}
	add("rate", r.Rate())
	addTimes(r.Took, add, false)
	add("node_us", node.perOne(r.Answered))
	add("redis_us", store.perOne(r.Answered))
	return nil
}

func createFiber(ctx context.Context, b *bench, add func(string, float64)) (err error) {
	address, err := child.FreeAddress()
	if err != nil {
		return err
	}
	p, err := b.role(ctx, "fiber", "-listen", address)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	if err := p.Until(ctx, child.Answers("http://"+address+"/")); err != nil {
		return err
	}
	c := &cpu{pids: []int{p.PID()}}
	r, err := right(httpgen.Run(ctx, createConfig(b, []string{address}, 1, c)))
	if err := errors.Join(err, c.err); err != nil {
		return err
	}
	add("rate", r.Rate())
	addTimes(r.Took, add, false)
	add("node_us", c.perOne(r.Answered))
	return nil
}

func createOpen(ctx context.Context, b *bench, s *stack, add func(string, float64)) error {
	r, err := right(httpgen.Run(ctx, httpgen.Config{
		Addresses: s.addresses(), Connections: connections, Warm: b.span(warm), Duration: b.span(openSpan), Rate: openRate,
		Request: constant("/timers", timer(interval(time.Hour), callbackURI(nowhere, 0))),
	}))
	if err != nil {
		return err
	}
	addTimes(r.Took, add, true)
	return nil
}

// addTimes sorts durations and adds their quantiles. With all, addTimes also adds p99.9 and the
// maximum.
func addTimes(took []time.Duration, add func(string, float64), all bool) {
	slices.Sort(took)
	add("p50_ms", figure.Ms(figure.Quantile(took, .5)))
	add("p99_ms", figure.Ms(figure.Quantile(took, .99)))
	if all {
		add("p999_ms", figure.Ms(figure.Quantile(took, .999)))
		add("max_ms", figure.Ms(figure.Quantile(took, 1)))
	}
}
