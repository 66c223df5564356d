package main

import (
	"context"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chronos/api"
	"chronos/api/transport"
	"chronos/api/ui"
	"chronos/api/wire"
	"chronos/cmd/internal/environment"
	"chronos/cmd/internal/operator"
	"chronos/cmd/internal/process"
	"chronos/scheduler"
	"chronos/scheduler/cluster"
	"chronos/scheduler/forecast"
	"chronos/scheduler/pulse"
	"chronos/scheduler/timer"
)

// serve makes the servers of both listeners.
func (n *node) serve(cfg environment.Node, shared files, registry *prometheus.Registry) {
	public := api.Config{
		Timers: n.engine, Log: n.log, Registerer: registry,
		Limits: transport.Limits{MaxBody: cfg.MaxBody, MaxConnections: shared.connections},
	}
	letters, lister := n.engine.Letters(n.store), n.engine.Lister()
	public.Lister = lister
	all, shards := view{n.observer, n.engine}, operator.Operator{Store: n.store, Sites: n.engine.Sites()}
	admin := api.AdminConfig{
		Ready: n.ready, Hosts: cfg.AdminHosts, Gatherer: registry, Log: n.log,
		Cluster: all, Topology: shards, Sites: shards, Letters: letters, Groups: letters,
		Interventions: n.engine, Destinations: n.engine, Lister: lister, Changer: lister,
	}
	if deliveries := n.engine.Deliveries(n.store); deliveries != nil { // an interface that holds a nil pointer is not nil
		public.Deliveries, admin.Deliveries = deliveries, deliveries
	}
	if cfg.Strict {
		public.Unknown = wire.Strict
	}
	if n.tokens != nil {
		public.Authorizer, admin.Authorizer = n.tokens, n.tokens
	} else {
		admin.Authorizer, admin.OpenReads = n.local, true
	}
	if cfg.UI {
		n.dashboard = ui.New(ui.Config{
			Cluster: all, History: n.observer, Lister: lister, Timers: n.engine, Letters: letters, Destinations: n.engine, Topology: shards,
			Authorizer: admin.Authorizer, Log: n.log,
		})
		admin.Dashboard = n.dashboard
	}
	n.public = api.New(public)
	admin.Resync = n.public.Resynchronisation()
	n.admin = api.NewAdmin(admin)
}

// view is what the admin listener shows of the cluster.
type view struct {
	*cluster.Observer

	engine *scheduler.Scheduler
}

// Load is api.Cluster's.
func (v view) Load(ctx context.Context, q forecast.Query) (forecast.Load, error) {
	return v.engine.Load(ctx, q)
}

// identity is what the node tells all nodes of itself.
func (n *node) identity() pulse.Identity {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	version, golang := process.Version()
	return pulse.Identity{
		Host: host, Version: version + " " + golang, Format: timer.LastFormat, Started: time.Now(),
		Public: n.listener.Addr().String(), Admin: n.adminAt.Addr().String(),
	}
}
