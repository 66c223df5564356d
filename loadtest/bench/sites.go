//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"chronos/loadtest/bench/figure"
	"chronos/loadtest/bench/machine"
)

const (
	sitesRate = 500 // creates a second, half of them at each site
	sitesFar  = 80 * time.Millisecond

	sitesNone  = "one site of four Redis and two nodes"
	sitesTwo   = "two sites of two Redis and a node each, 80 ms apart"
	sitesQuick = "two sites, CHRONOS_SITE_PATIENCE=0"
)

func sitesSection() section {
	return section{
		name: "sites",
		table: figure.Table{
			Title: "Sites",
			Notes: []string{
				fmt.Sprintf("Timers with two copies, in each site, are created at %d/s through the nodes of all sites, open loop, due 1 to 3 s later, on redis-servers on this one machine; appendfsync everysec. "+
					"A round trip between the sites takes %v. The processor time is for a create and a callback together, without the delay between the sites.", sitesRate, sitesFar),
			},
			Columns: slices.Concat([]figure.Column{
				{Metric: "create_p50_ms", Title: "create p50 ms"}, {Metric: "create_p99_ms", Title: "create p99 ms"},
				{Metric: "p50_ms", Title: "lateness p50 ms"}, {Metric: "p999_ms", Title: "lateness p99.9 ms"}, {Metric: "early", Title: "early"},
			}, costColumns(nodeCost, redisCost, receiverCost)),
			Ours: sitesTwo,
		},
		subjects: []subject{
			{name: sitesNone, measure: ours(setup{nodes: 2, shards: 4, copies: 2}, late(sitesRate, 0))},
			{name: sitesTwo, measure: apart()},
			{name: sitesQuick, measure: apart("CHRONOS_SITE_PATIENCE=0s")},
		},
	}
}

// apart measures two sites of two redis-servers and a node each.
func apart(more ...string) func(context.Context, *bench, func(string, float64)) error {
	return func(ctx context.Context, b *bench, add func(string, float64)) (err error) {
		s, err := b.startSites(ctx, 1, more...)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.stop()) }()
		return late(sitesRate, 0)(ctx, b, &s.stack, add)
	}
}

// sitesStack is a stack of two sites, and the ways between them.
type sitesStack struct {
	stack

	ways []*machine.Far
}

func (s *sitesStack) stop() error {
	err := s.stack.stop()
	for _, way := range s.ways {
		err = errors.Join(err, way.Stop())
	}
	return err
}

// startSites starts two sites of so many nodes each, and two Redis instances each.
func (b *bench) startSites(ctx context.Context, nodesEach int, more ...string) (*sitesStack, error) {
	const each = 2 // redis-servers of a site
	names := []string{"lon", "nyc"}
	s := &sitesStack{stack: stack{copies: each}}
	seen := make([][]string, len(names)) // CHRONOS_REDIS of a node in each site
	for i := range len(names) * each {
		r, err := machine.StartRedis(ctx, b.dir, true)
		if err != nil {
			return nil, errors.Join(err, s.stop())
		}
		s.shards = append(s.shards, r)
		way, err := machine.StartFar(ctx, r.Address, sitesFar/2)
		if err != nil {
			return nil, errors.Join(err, s.stop())
		}
		s.ways = append(s.ways, way)
		for site := range names {
			address := way.Address
			if site == i/each {
				address = r.Address
			}
			seen[site] = append(seen[site], fmt.Sprintf("%c@%s=redis://%s/0", 'a'+rune(i), names[i/each], address))
		}
	}
	nodes, errs := make([]*machine.Node, len(names)*nodesEach), make([]error, len(names)*nodesEach)
	var starts sync.WaitGroup // a node of a new cluster waits for the nodes of the other site
	for i := range nodes {
		starts.Go(func() {
			site := i / nodesEach
			env := append([]string{"CHRONOS_REDIS=" + strings.Join(seen[site], ","), "CHRONOS_SITE=" + names[site]}, more...)
			nodes[i], errs[i] = machine.StartNode(ctx, b.dir, b.node, s.shards, env...)
		})
	}
	starts.Wait()
	for _, n := range nodes {
		if n != nil {
			s.nodes = append(s.nodes, n)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}
