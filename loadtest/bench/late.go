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
	"chronos/loadtest/bench/machine"
	"chronos/loadtest/bench/role"
)

const (
	lateSpan     = 20 * time.Second
	lateShortest = time.Second
	lateLongest  = 3 * time.Second
	slowOfTen    = 3

	lateTwo1k  = "chronos, two copies on two Redis, 1,000/s"
	lateTwo5k  = "chronos, two copies on two Redis, 5,000/s"
	lateSlow   = "chronos, two copies on two Redis, 1,000/s, the 70 % beside slow endpoints"
	late1k     = "chronos, one copy, 1,000/s"
	late10k    = "chronos, one copy, 10,000/s"
	lateAsynq  = "asynq, 1,000/s"
	lateBullMQ = "BullMQ, 1,000/s"
)

func lateSection() section {
	return section{
		name: "lateness",
		table: figure.Table{
			Title: "Lateness",
			Notes: []string{
				"From when a callback was due to its arrival. Timers are created at the given rate, open loop, due 1 to 3 s later; the processor time is for a create and a callback together. " +
					"Slow endpoints: 30 % of the callbacks go to one that answers after 1.5 s.",
				"asynq as it is by default: as many workers as cores, its scheduled tasks looked at every 5 s; it keeps whole seconds, so its tasks may be early. BullMQ as it is by default: one job at a time.",
			},
			Columns: slices.Concat([]figure.Column{
				{Metric: "p999_ms", Title: "p99.9 ms"}, {Metric: "p50_ms", Title: "p50 ms"}, {Metric: "p99_ms", Title: "p99 ms"},
				{Metric: "max_ms", Title: "max ms"}, {Metric: "early", Title: "early"}, {Metric: "create_p99_ms", Title: "create p99 ms"},
			}, costColumns(nodeCost, redisCost, receiverCost)),
			Ours: lateTwo1k,
		},
		subjects: []subject{
			{name: lateTwo1k, measure: ours(twoCopies(), late(1000, 0))},
			{name: lateTwo5k, measure: ours(twoCopies(), late(5000, 0))},
			{name: lateSlow, measure: ours(twoCopies(), late(1000, slowOfTen))},
			{name: late1k, measure: ours(oneCopy(), late(1000, 0))},
			{name: late10k, measure: ours(oneCopy(), late(10_000, 0))},
			{name: lateAsynq, measure: asynq().late},
			{name: lateBullMQ, peer: true, measure: bullMQ().late},
		},
	}
}

// late creates timers at a rate and measures lateness. slow of ten timers lead to the slow
// endpoint.
func late(rate, slow int) on {
	return func(ctx context.Context, b *bench, s *stack, add func(string, float64)) (err error) {
		to, err := b.startSink(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, to.Stop()) }()
		n := int(b.lateSpan().Seconds()) * rate
		if err := to.expect(ctx, n); err != nil {
			return err
		}
		c := s.costs()
		c.watch(receiverCost, to.PID())
		c.begin()
		r, err := right(httpgen.Run(ctx, httpgen.Config{
			Addresses: s.addresses(), Connections: connections, Rate: float64(rate), Requests: n,
			Request: func(i int, buf []byte) []byte {
				base := to.fast
				if i%10 < slow {
					base = to.slow
				}
				return appendPost(buf, "/timers", s.timer(interval(spread(i)), callbackURI(base, i)))
			},
		}))
		if err != nil {
			return err
		}
		report, err := to.await(ctx, n, time.Now().Add(lateLongest))
		c.end()
		if err := errors.Join(err, c.addTo(add, n)); err != nil {
			return err
		}
		addLateness(&report, add)
		addTimes(r.Took, func(metric string, value float64) {
			add("create_"+metric, value)
		}, false)
		return wrongReport(&report)
	}
}

// lateSpan is in whole seconds.
func (b *bench) lateSpan() time.Duration { return b.span(lateSpan).Truncate(time.Second) }

// spread is the interval of the i-th timer. The intervals cover the whole span, in no order.
func spread(i int) time.Duration {
	const prime = 7919
	steps := int((lateLongest-lateShortest)/time.Millisecond) + 1
	return lateShortest + time.Duration(i*prime%steps)*time.Millisecond
}

func addLateness(r *role.Report, add func(string, float64)) {
	if r.Fast.Count == 0 {
		return
	}
	add("p999_ms", r.Fast.P999Ms)
	add("p50_ms", r.Fast.P50Ms)
	add("p99_ms", r.Fast.P99Ms)
	add("max_ms", r.Fast.MaxMs)
	add("early", float64(r.Early))
}

const (
	memorySize   = 1_000_000
	memorySingle = 10 // divides memorySize without batches: single creates take longer
)

func memorySection() section {
	return section{
		name: "memory",
		once: true,
		table: figure.Table{
			Title:   "Redis' memory for each pending timer",
			Notes:   []string{"used_memory after minus before, without an append-only file, whose buffer would count; URI of 46 bytes, opaque of 100."},
			Columns: []figure.Column{{Metric: "bytes", Title: "bytes each"}, {Metric: "pending", Title: "pending"}},
			Ours:    "chronos",
		},
		subjects: []subject{
			{name: "chronos", measure: ours(withoutLog(), memoryOfTimers)},
			{name: peerAsynq, measure: asynq().memory},
			{name: peerBullMQ, peer: true, measure: bullMQ().memory},
		},
	}
}

func memoryOfTimers(ctx context.Context, b *bench, s *stack, add func(string, float64)) error {
	n := b.size(memorySize)
	batches, err := batchesKnown(ctx, s.nodes[0].Address)
	if err != nil {
		return err
	}
	if !batches {
		n /= memorySingle
	}
	return memoryOf(ctx, s.shards[0], n, add, func() error {
		return fill(ctx, s, n, batches, func(i int) string {
			return s.timer(interval(24*time.Hour+spread(i)), callbackURI(nowhere, i))
		})
	})
}

// memoryOf measures the memory in Redis for each of the n things that put makes.
func memoryOf(ctx context.Context, store *machine.Redis, n int, add func(string, float64), put func() error) error {
	before, err := store.Info(ctx, "memory", "used_memory")
	if err != nil {
		return err
	}
	if err := put(); err != nil {
		return err
	}
	after, err := store.Info(ctx, "memory", "used_memory")
	if err != nil {
		return err
	}
	if after <= before {
		return fmt.Errorf("measure memory: it went from %d to %d bytes", before, after)
	}
	add("bytes", float64(after-before)/float64(n))
	add("pending", float64(n))
	return nil
}
