//go:build linux

package main

import (
	"errors"
	"time"

	"chronos/loadtest/bench/figure"
	"chronos/loadtest/bench/machine"
	"chronos/loadtest/child"
)

// The metrics of processor time: µs for each request, timer or callback.
const (
	nodeCost     = "node_us" // of a peer: the program that posts the callbacks, or puts the tasks
	redisCost    = "redis_us"
	receiverCost = "receiver_us"
)

// costColumns are the columns of the metrics.
func costColumns(metrics ...string) []figure.Column {
	titles := map[string]string{nodeCost: "node, CPU µs each", redisCost: "Redis, CPU µs each", receiverCost: "receiver, CPU µs each"}
	columns := make([]figure.Column, len(metrics))
	for i, metric := range metrics {
		columns[i] = figure.Column{Metric: metric, Title: titles[metric]}
	}
	return columns
}

// costs sums up the processor time of processes between begin and end, by metric.
type costs struct {
	watched []watched
	err     error
}

type watched struct {
	metric string
	pid    int
	took   time.Duration
}

func (c *costs) watch(metric string, pid int) {
	c.watched = append(c.watched, watched{metric: metric, pid: pid})
}

// of begins to watch a peer.
func (c *costs) of(worker *child.Process, store *machine.Redis, to *sink) {
	c.watch(nodeCost, worker.PID())
	c.watch(redisCost, store.PID())
	c.watch(receiverCost, to.PID())
	c.begin()
}

func (c *costs) begin() {
	c.each(func(w *watched, took time.Duration) { w.took -= took })
}

func (c *costs) end() {
	c.each(func(w *watched, took time.Duration) { w.took += took })
}

func (c *costs) each(count func(w *watched, took time.Duration)) {
	for i := range c.watched {
		took, err := machine.CPU(c.watched[i].pid)
		count(&c.watched[i], took)
		c.err = errors.Join(c.err, err)
	}
}

// addTo reports the processor time for each of n things.
func (c *costs) addTo(add func(string, float64), n int) error {
	sums := map[string]time.Duration{}
	for _, w := range c.watched {
		sums[w.metric] += w.took
	}
	for _, metric := range []string{nodeCost, redisCost, receiverCost} {
		if took, ok := sums[metric]; ok {
			add(metric, perOne(took, n))
		}
	}
	return c.err
}

// perOne is a processor time divided by n, in microseconds.
func perOne(took time.Duration, n int) float64 {
	return float64(took.Microseconds()) / float64(max(n, 1))
}
