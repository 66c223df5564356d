package main

import (
	"context"
	"errors"

	"chronos/api"
	"chronos/redisstore"
	"chronos/scheduler"
)

// operator lets the admin listener show and change the topology.
type operator struct{ store *redisstore.Store }

func (o operator) Show(ctx context.Context) api.TopologyView {
	t, reports := o.store.Inspect(ctx)
	view := api.TopologyView{Epoch: t.Epoch, View: t.View(), Moving: t.Next != nil || len(t.Former) > 0}
	for _, r := range reports {
		shown := api.ShardView{
			Name: r.Name, URL: r.URL, State: string(r.State), Copies: r.Copies, Swept: float64(r.Swept) / scheduler.Partitions,
		}
		switch _, lost := t.Lost[r.Name]; {
		case lost && r.Err != nil:
			shown.Problem = "given up: it has been away for longer than CHRONOS_AWAY_LIMIT; bring it back, or drain and remove it with --force: " + r.Err.Error()
		case lost:
			shown.Problem = "it is back after it was given up, and fires nothing until it is swept"
		case r.Err != nil:
			shown.Problem = r.Err.Error()
		case r.Epoch != t.Epoch:
			shown.Problem = "it does not hold this epoch"
		}
		view.Shards = append(view.Shards, shown)
	}
	return view
}

func (o operator) Add(ctx context.Context, name, url string) (api.TopologyView, error) {
	_, err := o.store.AddShard(ctx, redisstore.Member{Name: name, URL: url})
	return o.after(ctx, err)
}

func (o operator) Drain(ctx context.Context, name string, force bool) (api.TopologyView, error) {
	_, err := o.store.DrainShard(ctx, name, force)
	return o.after(ctx, err)
}

func (o operator) Remove(ctx context.Context, name string, force bool) (api.TopologyView, error) {
	_, err := o.store.RemoveShard(ctx, name, force)
	return o.after(ctx, err)
}

func (o operator) after(ctx context.Context, err error) (api.TopologyView, error) {
	if refused, is := errors.AsType[*redisstore.RefusedError](err); is {
		return api.TopologyView{}, &api.RefusedError{Reason: refused.Reason}
	}
	if err != nil {
		return api.TopologyView{}, err
	}
	return o.Show(ctx), nil
}
