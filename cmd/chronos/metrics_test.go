package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"chronos/api"
	"chronos/cmd/internal/environment"
	"chronos/cmd/internal/metricsdoc"
	"chronos/cmd/internal/process"
	"chronos/redisstore"
	"chronos/redisstore/endpoint"
	"chronos/scheduler"
	"chronos/scheduler/awake"
	"chronos/scheduler/dispatch"
	"chronos/scheduler/timer"
)

var update = flag.Bool("update", false, "write the node's part of docs/metrics.md")

// answering answers every callback at once, and every host is a destination.
type answering struct{ delivered chan struct{} }

func (answering) Check(timer.Callback) error { return nil }

func (answering) Destination(c timer.Callback) string { return c.URI }

func (a answering) Deliver(context.Context, dispatch.Delivery) dispatch.Delivered {
	a.delivered <- struct{}{}
	return dispatch.Delivered{Verdict: dispatch.VerdictDelivered, Class: dispatch.Class2xx}
}

// measured is a node with ten shards whose metrics are recorded.
func measured(t *testing.T, recorder *metricsdoc.Recorder, deliverer dispatch.Deliverer) *scheduler.Scheduler {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	recorder.MustRegister(process.Collectors()...)
	var shards []endpoint.Config
	for i := range 10 {
		shards = append(shards, endpoint.Config{Name: fmt.Sprint("shard-", i), URL: "redis://" + miniredis.RunT(t).Addr()})
	}
	store, err := redisstore.Open(t.Context(), redisstore.Options{Shards: shards, Node: "n", Lane: "http", Log: log, Registerer: recorder})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := store.Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	cfg, err := environment.LoadNode([]string{"CHRONOS_REDIS=memory"})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := scheduler.New(engineConfig(cfg, "n", log, recorder), store, deliverer)
	if err != nil {
		t.Fatal(err)
	}
	observer := engine.Observe(store)
	recorder.MustRegister(observer)
	api.New(api.Config{Timers: engine, Log: log, Registerer: recorder})
	t.Cleanup(process.Beside(t.Context(), store.Follow))
	t.Cleanup(process.Beside(t.Context(), engine.Run))
	t.Cleanup(process.Beside(t.Context(), observer.Run))
	return engine
}

// TestMetricsDocument: docs/metrics.md has every metric of a node, as the registry describes the metric.
func TestMetricsDocument(t *testing.T) {
	t.Parallel()
	recorder := metricsdoc.NewRecorder()
	measured(t, recorder, answering{make(chan struct{})})
	recorder.Check(t, "../../docs/metrics.md", "metrics of a node", *update)
}

// TestMetricsAreFew: a scrape of a node with ten shards has at most 1,500 lines, however many destinations there were.
func TestMetricsAreFew(t *testing.T) {
	t.Parallel()
	recorder, delivered := metricsdoc.NewRecorder(), make(chan struct{}, 10_000)
	engine := measured(t, recorder, answering{delivered})
	const destinations, together = 10_000, 100
	before := 0
	for i := range destinations / together {
		many := make([]timer.Creation, together)
		for k := range many {
			many[k].Timer = timer.Timer{ReplicationFactor: 2, Callback: timer.Callback{URI: fmt.Sprintf("http://host-%d/", i*together+k)}}
		}
		for left := many; len(left) > 0; { // as clients of a busy machine do
			engine.CreateAll(t.Context(), left)
			left = slices.DeleteFunc(left, func(c timer.Creation) bool { return !errors.Is(c.Err, timer.ErrUnavailable) })
			for k := range left {
				left[k] = timer.Creation{Timer: left[k].Timer}
			}
			if len(left) > 0 && !awake.Sleep(t.Context(), 200*time.Millisecond) {
				t.Fatal("timers can't be stored")
			}
		}
		for range together {
			select {
			case <-delivered:
			case <-t.Context().Done():
				t.Fatal("callbacks are missing")
			}
		}
		if i == 0 {
			before = metricsdoc.Series(t, recorder)
		}
	}
	after := metricsdoc.Series(t, recorder)
	t.Logf("%d series after %d destinations, %d before", after, destinations, before)
	if after > 1500 {
		t.Errorf("%d series, want at most 1,500", after)
	}
}
