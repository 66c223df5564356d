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

	fiberApp = "limit: Fiber answering nothing"
)

func createSection() section {
	return section{
		name: "create",
		table: figure.Table{
			Title: "Create over HTTP, 128 connections",
			Notes: []string{"Closed loop, URI of 46 bytes, opaque of 100; appendfsync everysec. The generator is one thread."},
			Columns: slices.Concat([]figure.Column{
				{Metric: "rate", Title: "requests/s"},
				{Metric: "p50_ms", Title: "p50 ms"}, {Metric: "p99_ms", Title: "p99 ms"},
			}, costColumns(nodeCost, redisCost)),
			Ours: oursTwo,
		},
		subjects: []subject{
			{name: oursTwo, measure: ours(twoCopies(), createClosed)},
			{name: oursSpread, measure: ours(oneOfTwo(), createClosed)},
			{name: oursOne, measure: ours(oneCopy(), createClosed)},
			{name: oursBare, measure: ours(withoutLog(), createClosed)},
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
			Columns: slices.Concat([]figure.Column{
				{Metric: "p50_ms", Title: "p50 ms"}, {Metric: "p99_ms", Title: "p99 ms"},
				{Metric: "p999_ms", Title: "p99.9 ms"}, {Metric: "max_ms", Title: "max ms"},
			}, costColumns(nodeCost, redisCost)),
		},
		subjects: []subject{
			{name: oursTwo, measure: ours(twoCopies(), createOpen)},
			{name: oursOne, measure: ours(oneCopy(), createOpen)},
			{name: oursBare, measure: ours(withoutLog(), createOpen)},
		},
	}
}

// on is a measurement on a running stack.
type on func(ctx context.Context, b *bench, s *stack, add func(string, float64)) error

// ours is a measurement on a fresh stack.
func ours(on setup, do on, more ...string) func(context.Context, *bench, func(string, float64)) error {
	return func(ctx context.Context, b *bench, add func(string, float64)) (err error) {
		s, err := b.start(ctx, on, more...)
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

func createConfig(b *bench, addresses []string, copies int, c *costs) httpgen.Config {
	return httpgen.Config{
		Addresses: addresses, Connections: connections, Warm: b.span(warm), Duration: b.span(createSpan),
		Request: constant("/timers", copied(interval(time.Hour), callbackURI(nowhere, 0), copies)),
		Begin:   c.begin, End: c.end,
	}
}

func createClosed(ctx context.Context, b *bench, s *stack, add func(string, float64)) error {
	c := s.costs()
	r, err := right(httpgen.Run(ctx, createConfig(b, s.addresses(), s.copies, c)))
	if err != nil {
		return err
	}
	add("rate", r.Rate())
	addTimes(r.Took, add, false)
	return c.addTo(add, r.Answered)
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
	c := &costs{}
	c.watch(nodeCost, p.PID())
	r, err := right(httpgen.Run(ctx, createConfig(b, []string{address}, 1, c)))
	if err != nil {
		return err
	}
	add("rate", r.Rate())
	addTimes(r.Took, add, false)
	return c.addTo(add, r.Answered)
}

func createOpen(ctx context.Context, b *bench, s *stack, add func(string, float64)) error {
	c := s.costs()
	r, err := right(httpgen.Run(ctx, httpgen.Config{
		Addresses: s.addresses(), Connections: connections, Warm: b.span(warm), Duration: b.span(openSpan), Rate: openRate,
		Request: constant("/timers", s.timer(interval(time.Hour), callbackURI(nowhere, 0))),
		Begin:   c.begin, End: c.end,
	}))
	if err != nil {
		return err
	}
	addTimes(r.Took, add, true)
	return c.addTo(add, r.Answered)
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
