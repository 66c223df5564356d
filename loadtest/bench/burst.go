//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"chronos/loadtest/bench/figure"
	"chronos/loadtest/bench/httpgen"
	"chronos/loadtest/bench/machine"
	"chronos/loadtest/bench/role"
)

const (
	burstSize      = 100_000
	bareFast       = "limit: fasthttp client in a loop"
	besideLimit    = 2 * time.Minute
	bareGoroutines = 256
	besideRate     = 200
	besideEarlier  = 300 * time.Millisecond // head start of the requests that run beside the burst
	fillBatch      = 500
	fillPessimist  = 12_000 // timers a second, by single creates
	fillBatches    = 40_000 // timers a second, in batches
)

func burstSection() section {
	return section{
		name: "burst",
		table: figure.Table{
			Title: "Burst: 100,000 callbacks due at the same instant",
			Notes: []string{
				"Callbacks a second from the first arrival to the last, at a receiver on the same machine; appendfsync everysec. " +
					"Meanwhile 200 creates a second, open loop, whose answers' times are shown. Memory is the highest resident one of the node. The node of a peer is the program that posts.",
				"asynq and BullMQ: as many tasks at one instant, whose handler posts by fasthttp's client or undici; the best concurrency of a few. asynq looks at its scheduled tasks each second here.",
			},
			Columns: slices.Concat([]figure.Column{
				{Metric: "rate", Title: "callbacks/s"}, {Metric: "rate99", Title: "to 99 %"},
				{Metric: "first_ms", Title: "first, ms after due"}, {Metric: "last_ms", Title: "last, ms after due"},
				{Metric: "api_p50_ms", Title: "API p50 ms"}, {Metric: "api_p99_ms", Title: "API p99 ms"}, {Metric: "api_max_ms", Title: "API max ms"},
				{Metric: "peak_mb", Title: "node MB"},
			}, costColumns(nodeCost, redisCost, receiverCost)),
			Ours: oursTwo,
		},
		subjects: []subject{
			{name: oursTwo, measure: ours(twoCopies(), burst(burstSize, true))},
			{name: oursSpread, measure: ours(oneOfTwo(), burst(burstSize, true))},
			{name: oursOne, measure: ours(oneCopy(), burst(burstSize, true))},
			{name: oursBare, measure: ours(withoutLog(), burst(burstSize, true))},
			{name: peerAsynq, measure: asynq().burst},
			{name: peerBullMQ, peer: true, measure: bullMQ().burst},
			{name: bareFast, measure: burstBare("fasthttp")},
			{name: "limit: net/http client in a loop", measure: burstBare("nethttp")},
		},
	}
}

// burst fires n timers at the same instant. With beside, the bench creates timers at the same time.
func burst(n int, beside bool) on {
	return func(ctx context.Context, b *bench, s *stack, add func(string, float64)) (err error) {
		n := b.size(n)
		to, err := b.startSink(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, to.Stop()) }()
		if err := to.expect(ctx, n); err != nil {
			return err
		}
		due, err := b.fillBurst(ctx, s, to, n)
		if err != nil {
			return err
		}
		c := s.costs()
		c.watch(receiverCost, to.PID())
		c.begin()
		var api httpgen.Result
		var apiErr error
		var drained atomic.Bool
		var asking sync.WaitGroup
		if beside {
			asking.Go(func() { api, apiErr = askBeside(ctx, s, due, &drained) })
		}
		report, err := to.await(ctx, n, due)
		c.end()
		drained.Store(true)
		asking.Wait()
		if err := errors.Join(err, apiErr); err != nil {
			return err
		}
		addBurst(&report, due, add)
		if err := c.addTo(add, n); err != nil {
			return err
		}
		if beside {
			addBeside(api.Took, add)
		}
		peak := int64(0)
		for _, node := range s.nodes {
			_, p, err := machine.Memory(node.PID())
			if err != nil {
				return err
			}
			peak = max(peak, p)
		}
		add("peak_mb", float64(peak)/1e6)
		return wrongReport(&report)
	}
}

func wrongReport(r *role.Report) error {
	if err := r.Wrong(); err != nil {
		return fmt.Errorf("%w: %w", errWrong, err)
	}
	return nil
}

// addBurst adds nothing if no callback came, or if all callbacks came at the same instant.
func addBurst(r *role.Report, due time.Time, add func(string, float64)) {
	if r.Span99Ms <= 0 {
		return
	}
	n := float64(r.Expected - r.Missing)
	add("rate", n/(r.SpanMs/1000))
	add("rate99", .99*n/(r.Span99Ms/1000))
	if !due.IsZero() {
		add("first_ms", float64(r.FirstMs-due.UnixMilli()))
		add("last_ms", float64(r.FirstMs-due.UnixMilli())+r.SpanMs)
	}
}

func addBeside(took []time.Duration, add func(string, float64)) {
	addTimes(took, func(metric string, value float64) {
		if metric != "p999_ms" {
			add("api_"+metric, value)
		}
	}, true)
}

// askBeside creates timers at a low rate from shortly before due until the
// burst is drained.
func askBeside(ctx context.Context, s *stack, due time.Time, drained *atomic.Bool) (httpgen.Result, error) {
	if err := pause(ctx, time.Until(due)-besideEarlier); err != nil {
		return httpgen.Result{}, err
	}
	return right(httpgen.Run(ctx, httpgen.Config{
		Addresses: s.addresses(), Connections: 16, Rate: besideRate, Duration: besideLimit, Stop: drained.Load,
		Request: constant("/timers", s.timer(interval(time.Hour), callbackURI(nowhere, 0))),
	}))
}

// fillBurst creates the timers of a burst and returns their due time. The due time is at least half
// a second after the last create.
func (b *bench) fillBurst(ctx context.Context, s *stack, to *sink, n int) (due time.Time, err error) {
	batches, err := batchesKnown(ctx, s.nodes[0].Address)
	if err != nil {
		return due, err
	}
	perSecond := fillPessimist
	if batches {
		perSecond = fillBatches
	}
	lead := 2*time.Second + time.Duration(n)*time.Second/time.Duration(perSecond)
	due = time.Now().Add(lead).Truncate(time.Second).Add(time.Second)
	timing := at(due)
	each := func(i int) string { return s.timer(timing, callbackURI(to.fast, i)) }
	if err := fill(ctx, s, n, batches, each); err != nil {
		return due, err
	}
	if left := time.Until(due); left < time.Second/2 {
		return due, fmt.Errorf("make a burst: creating the timers took until %s before they were due", left)
	}
	return due, nil
}

// fill creates n timers as fast as possible.
func fill(ctx context.Context, s *stack, n int, batches bool, each func(i int) string) error {
	if batches {
		return fillInBatches(ctx, s, n, min(fillBatch, n), batchConnections, each)
	}
	_, err := right(httpgen.Run(ctx, httpgen.Config{
		Addresses: s.addresses(), Connections: connections, Requests: n,
		Request: func(i int, buf []byte) []byte { return appendPost(buf, "/timers", each(i)) },
	}))
	return err
}

// fillInBatches creates n timers in batches of a size, over so many connections.
func fillInBatches(ctx context.Context, s *stack, n, size, conns int, each func(i int) string) error {
	if n%size != 0 {
		return errors.New("fill: the number must be a multiple of the batch's size")
	}
	_, err := right(httpgen.Run(ctx, httpgen.Config{
		Addresses: s.addresses(), Connections: conns, Requests: n / size, Check: created(size),
		Request: func(i int, buf []byte) []byte {
			timers := make([]string, size)
			for k := range timers {
				timers[k] = each(i*size + k)
			}
			return appendPost(buf, batchPath, batch(timers))
		},
	}))
	return err
}

// batchesKnown reports whether the node has the endpoint for batches.
func batchesKnown(ctx context.Context, address string) (bool, error) {
	r, err := right(httpgen.Run(ctx, httpgen.Config{
		Addresses: []string{address}, Connections: 1, Requests: 1,
		Request: constant(batchPath, batch([]string{copied(interval(time.Hour), callbackURI(nowhere, 0), 1)})),
		Check: func(status int, _ []byte) error {
			if status == http.StatusNotFound || status == http.StatusMethodNotAllowed || status == http.StatusNotImplemented {
				return errAbsent
			}
			return nil
		},
	}))
	if errors.Is(r.Why, errAbsent) {
		return false, nil
	}
	return err == nil, err
}

// burstBare makes callbacks with a client in a loop.
func burstBare(client string) func(context.Context, *bench, func(string, float64)) error {
	return func(ctx context.Context, b *bench, add func(string, float64)) (err error) {
		to, err := b.startSink(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, to.Stop()) }()
		n := b.size(burstSize)
		if err := to.expect(ctx, n); err != nil {
			return err
		}
		c := &costs{}
		c.watch(receiverCost, to.PID())
		c.begin()
		took, err := b.job(ctx, "bare", b.self, "role", "bare", "-client", client, "-url", to.fast, "-n", strconv.Itoa(n), "-goroutines", strconv.Itoa(bareGoroutines))
		if err != nil {
			return err
		}
		report, err := to.await(ctx, n, time.Now())
		c.end()
		if err := errors.Join(err, c.addTo(add, n)); err != nil {
			return err
		}
		add(nodeCost, perOne(took.CPU, n))
		addBurst(&report, time.Time{}, add)
		report.Undated = 0 // the callbacks have no due time
		return wrongReport(&report)
	}
}
