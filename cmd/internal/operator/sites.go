package operator

import (
	"context"
	"fmt"

	"chronos/api"
	"chronos/redisstore/topology"
)

var _ api.Sites = Operator{}

// sites tells the state of all sites.
func (o Operator) sites(ctx context.Context) (all []api.SiteView) {
	if o.Sites == nil {
		return nil
	}
	for _, found := range o.Sites.Standings(ctx) {
		shown := api.SiteView{Name: found.Name, Shards: append([]string{}, found.Shards...), Reached: found.Reached, Filled: found.Filled}
		if found.Known {
			shown.Behind = new(found.Behind.Seconds())
		}
		all = append(all, shown)
	}
	return all
}

// NameSite names the site of a cluster without sites.
func (o Operator) NameSite(ctx context.Context, name string) (api.TopologyView, error) {
	return o.after(ctx, o.Store.NameSite(ctx, name))
}

// AddTo makes a shard of another site take timers.
func (o Operator) AddTo(ctx context.Context, site, name, url string, force bool) (api.TopologyView, error) {
	return o.after(ctx, o.Store.AddShardTo(ctx, site, topology.Member{Name: name, URL: url}, force))
}

// RemoveSite forgets another site.
func (o Operator) RemoveSite(ctx context.Context, name string, force bool) (api.TopologyView, error) {
	return o.after(ctx, o.Store.RemoveSite(ctx, name, force))
}

// Begin has the own site begin without timers, if the site is hollow.
func (o Operator) Begin(ctx context.Context, force bool) (api.TopologyView, error) {
	t := o.Store.Topology()
	if !o.Sites.Hollow() {
		return o.after(ctx, t.Refuse("only a site that lost all its timers, and waits for the other sites to fill it, may begin without timers; this one does not wait"))
	}
	if filler := o.Sites.HasTimers(ctx); filler != "" && !force {
		return o.after(ctx, t.Refuse("site %s is reached and fills site %s; wait until it is filled, or give up with force the timers that other sites still have of site %s", filler, t.Site, t.Site))
	}
	if err := o.Sites.Begin(ctx); err != nil {
		return api.TopologyView{}, fmt.Errorf("begin without timers: %w", err)
	}
	view := o.Show(ctx)
	view.Note = fmt.Sprintf("site %s has begun without timers. The timers whose home was site %s are given up: the other sites remove their copies when the copies come due. Timers of the other sites go on", t.Site, t.Site)
	return view, nil
}
