//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"chronos/loadtest/bench/figure"
	"chronos/loadtest/bench/machine"
	"chronos/loadtest/child"
)

const (
	sweepAlone  = "as fast as it can, nothing else to do"
	sweepBeside = "5,000 a second, beside 1,000 timers a second"

	sweptTimers  = 200_000 // with two copies each, on three shards
	sweepLook    = 20 * time.Millisecond
	sweepBegins  = 30 * time.Second // bound on the wait for the begin
	sweepStands  = 3 * time.Second  // the sweep is over after so long without progress
	sweepOutlast = 5 * time.Minute
)

func sweepSection() section {
	return section{
		name: "sweep",
		table: figure.Table{
			Title: "Sweep",
			Notes: []string{
				"A fourth redis-server is added to three that hold 200,000 timers of two copies: copies that the sweep looks at in a second, a quarter of which move. " +
					"Lateness of timers that are created and fired at 1,000/s meanwhile, at the default CHRONOS_SWEEP_RATE.",
			},
			Columns: []figure.Column{
				{Metric: "rate", Title: "copies/s"}, {Metric: "moved", Title: "moved"}, {Metric: nodeCost, Title: "node, CPU µs a copy"},
				{Metric: redisCost, Title: "Redis, CPU µs a copy"}, {Metric: "p999_ms", Title: "lateness p99.9 ms"}, {Metric: "p50_ms", Title: "p50 ms"},
				{Metric: "p99_ms", Title: "p99 ms"}, {Metric: "max_ms", Title: "max ms"}, {Metric: "early", Title: "early"},
			},
			Ours: sweepAlone,
		},
		subjects: []subject{
			{name: sweepAlone, measure: ours(with(3, 2), sweepAsFast, "CHRONOS_SWEEP_RATE=1000000")},
			{name: sweepBeside, measure: ours(with(3, 2), sweepBesideLoad)},
		},
	}
}

// sweepAsFast measures the time from the first copy that the sweep looks at to the last.
func sweepAsFast(ctx context.Context, b *bench, s *stack, add func(string, float64)) error {
	c := s.costs()
	begun, before, err := beginSweep(ctx, b, s)
	if err != nil {
		return err
	}
	c.begin()
	ended, after := begun, before
	for now := begun; now.Sub(ended) < sweepStands; now = time.Now() {
		if now.Sub(begun) > sweepOutlast {
			return errors.New("the sweep does not end")
		}
		seen, err := sweptCopies(ctx, s.nodes[0])
		if err != nil {
			return err
		}
		if seen["seen"] > after["seen"] {
			ended, after = time.Now(), seen
		}
		if err := pause(ctx, sweepLook); err != nil {
			return err
		}
	}
	c.end()
	n := int(after["seen"] - before["seen"])
	if least := 2 * b.size(sweptTimers); n < least {
		return fmt.Errorf("the sweep looked at %d copies of %d", n, least)
	}
	add("rate", float64(n)/ended.Sub(begun).Seconds())
	add("moved", after["brought"]-before["brought"])
	return c.addTo(add, n)
}

// sweepBesideLoad measures lateness during a sweep.
func sweepBesideLoad(ctx context.Context, b *bench, s *stack, add func(string, float64)) error {
	begun, before, err := beginSweep(ctx, b, s)
	if err != nil {
		return err
	}
	if err := late(1000, 0)(ctx, b, s, func(metric string, value float64) {
		if metric != "create_p99_ms" && metric != nodeCost && metric != redisCost {
			add(metric, value)
		}
	}); err != nil {
		return err
	}
	after, err := sweptCopies(ctx, s.nodes[0])
	if err != nil {
		return err
	}
	add("rate", (after["seen"]-before["seen"])/time.Since(begun).Seconds())
	add("moved", after["brought"]-before["brought"])
	if after["seen"]-before["seen"] > 2*float64(b.size(sweptTimers)) {
		return errors.New("the sweep was over before the load was")
	}
	return nil
}

// beginSweep makes the timers, adds a shard, and returns when the sweep has begun. before holds the
// counters from before the sweep.
func beginSweep(ctx context.Context, b *bench, s *stack) (begun time.Time, before map[string]float64, err error) {
	n := b.size(sweptTimers)
	if err := fill(ctx, s, n, true, func(i int) string { return s.timer(interval(time.Hour), callbackURI(nowhere, i)) }); err != nil {
		return begun, nil, err
	}
	added, err := machine.StartRedis(ctx, b.dir, true)
	if err != nil {
		return begun, nil, err
	}
	s.shards = append(s.shards, added)
	body := `{"name": "d", "url": "redis://` + added.Address + `/0"}`
	response, err := s.nodes[0].Ask(ctx, http.MethodPost, "/topology/shards", body)
	if err != nil {
		return begun, nil, fmt.Errorf("add shard: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if said, err := io.ReadAll(response.Body); err != nil || response.StatusCode != http.StatusOK {
		return begun, nil, fmt.Errorf("add shard: %s %s (%w)", response.Status, said, err)
	}
	if err := pause(ctx, announced); err != nil {
		return begun, nil, err
	}
	if before, err = sweptCopies(ctx, s.nodes[0]); err != nil {
		return begun, nil, err
	}
	for end := time.Now().Add(sweepBegins); time.Now().Before(end); {
		now, err := sweptCopies(ctx, s.nodes[0])
		if err != nil {
			return begun, nil, err
		}
		if now["seen"] > before["seen"] {
			return time.Now(), before, nil
		}
		if err := pause(ctx, sweepLook); err != nil {
			return begun, nil, err
		}
	}
	return begun, nil, errors.New("the sweep does not begin")
}

// announced is the time from the announcement of a new shard until the shard counts.
const announced = 7 * time.Second

// sweptCopies sums up the node's counters of the sweep over all shards, by kind of work.
func sweptCopies(ctx context.Context, n *machine.Node) (map[string]float64, error) {
	body, err := child.Ask(ctx, http.MethodGet, "http://"+n.Admin+"/metrics")
	if err != nil {
		return nil, err
	}
	sums := map[string]float64{}
	lines := bufio.NewScanner(bytes.NewReader(body))
	for lines.Scan() {
		labels, value, ok := strings.Cut(strings.TrimPrefix(lines.Text(), "chronos_sweep_copies_total{"), "} ")
		_, what, named := strings.Cut(labels, `what="`)
		if !ok || !named || !strings.HasPrefix(lines.Text(), "chronos_sweep_copies_total") {
			continue
		}
		count, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, fmt.Errorf("read metrics: %w", err)
		}
		sums[strings.TrimSuffix(what, `"`)] += count
	}
	return sums, nil
}
