//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"chronos/loadtest/bench/figure"
	"chronos/loadtest/bench/httpgen"
	"chronos/loadtest/bench/machine"
	"chronos/loadtest/child"
)

const (
	batchPath        = "/timers/batch"
	batchConnections = 8
	batchSpan        = 5 * time.Second
	enqueued         = 200_000 // by a peer's client
	pipelined        = 1_000_000
	batchTwo         = "chronos, two copies on two Redis, batches of 1,000"
	batchThousand    = "chronos, one copy, batches of 1,000"
	batchHundred     = "chronos, one copy, batches of 100"
	evalsha          = "limit: redis-benchmark, EVALSHA pipelined"
)

func batchSection() section {
	return section{
		name: "batch",
		table: figure.Table{
			Title: "Create in batches",
			Notes: []string{
				"POST /timers/batch by 8 connections, closed loop. asynq: its client in a process of its own, 128 goroutines, Enqueue with ProcessAt. BullMQ: addBulk of 1,000, four at once. " +
					"Limit: redis-benchmark, 8 connections, 50 commands pipelined, EVALSHA of a script that does one HSET and one ZADD. All with appendfsync everysec.",
			},
			Columns: slices.Concat([]figure.Column{
				{Metric: "rate", Title: "timers/s"}, {Metric: "p50_ms", Title: "p50 ms"}, {Metric: "p99_ms", Title: "p99 ms"},
			}, costColumns(nodeCost, redisCost)),
			Ours: batchTwo,
		},
		subjects: []subject{
			{name: batchTwo, measure: ours(twoCopies(), createBatches(1000))},
			{name: batchThousand, measure: ours(oneCopy(), createBatches(1000))},
			{name: batchHundred, measure: ours(oneCopy(), createBatches(100))},
			{name: peerAsynq, measure: asynq().create},
			{name: peerBullMQ, peer: true, measure: bullMQ().create},
			{name: evalsha, measure: pipelineRedis},
		},
	}
}

func createBatches(size int) on {
	return func(ctx context.Context, b *bench, s *stack, add func(string, float64)) error {
		known, err := batchesKnown(ctx, s.nodes[0].Address)
		if err != nil {
			return err
		}
		if !known {
			return fmt.Errorf("%w: this node has no POST %s", errAbsent, batchPath)
		}
		body := batch(slices.Repeat([]string{s.timer(interval(time.Hour), callbackURI(nowhere, 0))}, size))
		c := s.costs()
		r, err := right(httpgen.Run(ctx, httpgen.Config{
			Addresses: s.addresses(), Connections: batchConnections, Warm: b.span(warm), Duration: b.span(batchSpan),
			Request: constant(batchPath, body), Check: created(size), Begin: c.begin, End: c.end,
		}))
		if err != nil {
			return err
		}
		add("rate", r.Rate()*float64(size))
		addTimes(r.Took, add, false)
		return c.addTo(add, r.Answered*size)
	}
}

const onePut = `redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) return redis.call('ZADD', KEYS[2], 1, ARGV[1])`

func pipelineRedis(ctx context.Context, b *bench, add func(string, float64)) (err error) {
	store, err := machine.StartRedis(ctx, b.dir, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Stop()) }()
	sha, err := store.Client.ScriptLoad(ctx, onePut).Result()
	if err != nil {
		return fmt.Errorf("load script: %w", err)
	}
	host, port, err := net.SplitHostPort(store.Address)
	if err != nil {
		return fmt.Errorf("read address: %w", err)
	}
	c := &costs{}
	c.watch(redisCost, store.PID())
	c.begin()
	p, err := child.Start(ctx, "redis-benchmark", b.dir, nil, "redis-benchmark", "-h", host, "-p", port, "-c", strconv.Itoa(batchConnections),
		"-P", "50", "-n", strconv.Itoa(b.size(pipelined)), "-r", strconv.Itoa(pipelined), "--csv",
		"EVALSHA", sha, "2", "{x}:timers", "{x}:due", "__rand_int__", strings.Repeat("x", 230))
	if err != nil {
		return err
	}
	err = p.Wait(ctx)
	if err = errors.Join(err, p.Stop()); err != nil {
		return fmt.Errorf("%w\n%s", err, p.Tail())
	}
	output, err := p.Output()
	if err != nil {
		return err
	}
	rate, err := parseBenchmark(output)
	if err != nil {
		return err
	}
	add("rate", rate)
	c.end()
	return c.addTo(add, b.size(pipelined))
}

// parseBenchmark reads the rate from the output of redis-benchmark --csv, in requests a second.
func parseBenchmark(output []byte) (float64, error) {
	rows, err := csv.NewReader(bytes.NewReader(output)).ReadAll()
	if err != nil {
		return 0, fmt.Errorf("read what redis-benchmark says: %w", err)
	}
	if len(rows) == 0 || len(rows[len(rows)-1]) < 2 {
		return 0, errors.New("read what redis-benchmark says: no rate is in it")
	}
	rate, err := strconv.ParseFloat(rows[len(rows)-1][1], 64)
	if err != nil {
		return 0, fmt.Errorf("read what redis-benchmark says: %w", err)
	}
	return rate, nil
}
