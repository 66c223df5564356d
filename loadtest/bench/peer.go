//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"chronos/loadtest/bench/machine"
	"chronos/loadtest/bench/role"
	"chronos/loadtest/child"
)

// peer is another queue with delayed tasks. A peer is two programs with the same flags. The first
// program enqueues tasks. The second program posts due tasks to the receiver.
type peer struct {
	name          string
	enqueue, work func(b *bench) []string
	enqueuers     int
	check         time.Duration // interval between looks for due tasks in a burst; 0 for the peer's default
	tuned         []int         // concurrencies to try in a burst
}

const (
	peerAsynq  = "asynq"
	peerBullMQ = "BullMQ"

	peerLead      = 3 * time.Second
	peerPessimist = 15_000 // tasks a second
	tuneShare     = 5      // tune divides the size of the burst by tuneShare
)

func asynq() *peer {
	return &peer{
		name:      peerAsynq,
		enqueue:   func(b *bench) []string { return []string{b.self, "role", "asynq-enqueue"} },
		work:      func(b *bench) []string { return []string{b.self, "role", "asynq-work"} },
		enqueuers: 128,
		check:     time.Second,
		tuned:     []int{64, 256, 1024},
	}
}

func bullMQ() *peer {
	return &peer{
		name:      peerBullMQ,
		enqueue:   func(b *bench) []string { return []string{"node", b.bullMQ(), "enqueue"} },
		work:      func(b *bench) []string { return []string{"node", b.bullMQ(), "work"} },
		enqueuers: 4,
		tuned:     []int{64, 256},
	}
}

// put enqueues n tasks. timing are further flags, among them the due time.
func (p *peer) put(ctx context.Context, b *bench, store *machine.Redis, url string, n int, timing ...string) (role.Took, error) {
	args := append(p.enqueue(b), "-redis", store.Address, "-url", url, "-n", strconv.Itoa(n), "-goroutines", strconv.Itoa(p.enqueuers))
	return b.job(ctx, p.name, append(args, timing...)...)
}

// start starts the program that works off tasks. A concurrency or check of 0 means the peer's
// default.
func (p *peer) start(ctx context.Context, b *bench, store *machine.Redis, concurrency int, check time.Duration) (*child.Process, error) {
	args := append(p.work(b), "-redis", store.Address, "-goroutines", strconv.Itoa(concurrency))
	if check > 0 {
		args = append(args, "-check", check.String())
	}
	return child.Start(ctx, p.name, b.dir, nil, args[0], args[1:]...)
}

// create measures how fast the peer enqueues delayed tasks.
func (p *peer) create(ctx context.Context, b *bench, add func(string, float64)) (err error) {
	store, err := machine.StartRedis(ctx, b.dir, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Stop()) }()
	c, n := &costs{}, b.size(enqueued)
	c.watch(redisCost, store.PID())
	c.begin()
	took, err := p.put(ctx, b, store, callbackURI(nowhere, 0), n, "-delay-ms", inMs(time.Hour))
	c.end()
	if err != nil {
		return err
	}
	add("rate", took.Rate())
	add(nodeCost, perOne(took.CPU, n))
	return c.addTo(add, n)
}

func inMs(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// burst measures tasks with the same due time.
func (p *peer) burst(ctx context.Context, b *bench, add func(string, float64)) error {
	if err := p.tune(ctx, b); err != nil {
		return err
	}
	c := &costs{}
	report, due, err := p.burstOf(ctx, b, b.size(burstSize), b.concurrency[p.name], c)
	if err := errors.Join(err, c.addTo(add, b.size(burstSize))); err != nil {
		return err
	}
	addBurst(&report, due, add)
	return peerReport(&report)
}

// peerReport returns an error if callbacks are missing or unknown. A peer may be early, and may
// repeat callbacks.
func peerReport(r *role.Report) error {
	if r.Missing > 0 || r.Unknown > 0 {
		return fmt.Errorf("peer: of %d callbacks missing %d, unknown %d", r.Expected, r.Missing, r.Unknown)
	}
	return nil
}

// tune finds the concurrency at which the peer is fastest, once.
func (p *peer) tune(ctx context.Context, b *bench) error {
	if b.concurrency[p.name] > 0 {
		return nil
	}
	best, fastest := 0, 0.0
	for _, concurrency := range p.tuned {
		report, _, err := p.burstOf(ctx, b, b.size(burstSize)/tuneShare, concurrency, &costs{})
		if err == nil {
			err = peerReport(&report)
		}
		if err != nil {
			return err
		}
		if rate := float64(report.Expected) / report.SpanMs; rate > fastest {
			best, fastest = concurrency, rate
		}
	}
	b.concurrency[p.name] = best
	b.notes = append(b.notes, fmt.Sprintf("%s was fastest with concurrency %d of %d", p.name, best, p.tuned))
	return nil
}

// burstOf measures a burst of n tasks, and the processor time from the start of the program that posts.
func (p *peer) burstOf(ctx context.Context, b *bench, n, concurrency int, c *costs) (report role.Report, due time.Time, err error) {
	store, to, err := b.startPeer(ctx)
	if err != nil {
		return report, due, err
	}
	defer func() { err = errors.Join(err, to.Stop(), store.Stop()) }()
	if err := to.expect(ctx, n); err != nil {
		return report, due, err
	}
	// A whole second: asynq has no finer times.
	due = time.Now().Add(peerLead + time.Duration(n)*time.Second/peerPessimist).Truncate(time.Second)
	if _, err := p.put(ctx, b, store, to.fast, n, "-at", strconv.FormatInt(due.UnixMilli(), 10)); err != nil {
		return report, due, err
	}
	worker, err := p.start(ctx, b, store, concurrency, p.check)
	if err != nil {
		return report, due, err
	}
	defer func() { err = errors.Join(err, worker.Stop()) }()
	c.of(worker, store, to)
	report, err = to.await(ctx, n, due)
	c.end()
	return report, due, err
}

// startPeer starts a redis-server like the redis-server for chronos, and a receiver.
func (b *bench) startPeer(ctx context.Context) (*machine.Redis, *sink, error) {
	store, err := machine.StartRedis(ctx, b.dir, true)
	if err != nil {
		return nil, nil, err
	}
	to, err := b.startSink(ctx)
	if err != nil {
		return nil, nil, errors.Join(err, store.Stop())
	}
	return store, to, nil
}

// late measures lateness with the peer's own settings.
func (p *peer) late(ctx context.Context, b *bench, add func(string, float64)) (err error) {
	store, to, err := b.startPeer(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Stop(), store.Stop()) }()
	const rate = 1000
	n := int(b.lateSpan().Seconds()) * rate
	if err := to.expect(ctx, n); err != nil {
		return err
	}
	worker, err := p.start(ctx, b, store, 0, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, worker.Stop()) }()
	c := &costs{}
	c.of(worker, store, to)
	if _, err := p.put(ctx, b, store, to.fast, n, "-rate", strconv.Itoa(rate), "-delay-ms", inMs((lateShortest+lateLongest)/2)); err != nil {
		return err
	}
	report, err := to.await(ctx, n, time.Now().Add(lateLongest))
	c.end()
	if err := errors.Join(err, c.addTo(add, n)); err != nil {
		return err
	}
	addLateness(&report, add)
	return peerReport(&report)
}

// memory measures the memory of a pending task in Redis.
func (p *peer) memory(ctx context.Context, b *bench, add func(string, float64)) (err error) {
	store, err := machine.StartRedis(ctx, b.dir, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Stop()) }()
	n := b.size(memorySize)
	return memoryOf(ctx, store, n, add, func() error {
		_, err := p.put(ctx, b, store, nowhere+"/pppppppppppppppp", n, "-delay-ms", inMs(24*time.Hour))
		return err
	})
}
