package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"chronos/api/wire"
	"chronos/scheduler/cluster"
	"chronos/scheduler/forecast"
)

// Cluster is what the admin listener shows of the cluster; *scheduler.Scheduler implements Cluster. The
// methods are safe for concurrent use and return soon after ctx has ended.
type Cluster interface {
	// Status returns nodes, shards and alarms as this node knows them.
	Status(ctx context.Context) (cluster.Status, error)
	// Load returns how many timers come due when.
	Load(ctx context.Context, q forecast.Query) (forecast.Load, error)
}

// clusterPatience is how long a request about the cluster may take.
const clusterPatience = 2 * time.Second

// serveCluster serves the condition of the cluster on the admin listener.
func serveCluster(mux *http.ServeMux, by gate, all Cluster) {
	handle := func(pattern string, do func(w http.ResponseWriter, r *http.Request) (any, error)) {
		mux.Handle(pattern, by.lets(openRead, by.answering(clusterPatience, nil, do)))
	}
	handle("GET /status", func(_ http.ResponseWriter, r *http.Request) (any, error) {
		status, err := all.Status(r.Context())
		return wire.ViewStatus(&status), err
	})
	handle("GET /load", func(_ http.ResponseWriter, r *http.Request) (any, error) {
		q, err := readLoad(r.URL.RawQuery)
		if err != nil {
			return nil, err
		}
		load, err := all.Load(r.Context(), q)
		return wire.ViewLoad(&load), err
	})
}

// readLoad reads which load is asked for: by default an hour from now, by the minute.
func readLoad(query string) (q forecast.Query, err error) {
	const buckets = 60
	values, err := readQuery(query, "from", "step", "buckets")
	if err != nil {
		return q, err
	}
	if q.From, err = readInstant(values, "from", "from-malformed"); err != nil {
		return q, err
	}
	if q.Buckets, err = readWhole(values, "buckets", "buckets-range", buckets, forecast.MaxBuckets); err != nil {
		return q, err
	}
	q.Step, err = time.ParseDuration(cmp.Or(values.Get("step"), "60s"))
	if steps := []time.Duration{time.Second, 10 * time.Second, time.Minute, time.Hour}; err != nil || !slices.Contains(steps, q.Step) {
		return q, refuseQuery("step-unknown", "step is none of 1s, 10s, 60s and 1h; give one of these, or leave it out for 60s")
	}
	return q, nil
}
