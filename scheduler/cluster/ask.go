package cluster

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"chronos/scheduler/pulse"
	"chronos/scheduler/shard"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

// telling is what the nodes have told.
type telling struct {
	nodes     map[string]heard
	unreached []string // shards
	at        time.Time
}

// shownFor is how long a node is shown after its last announcement. A page that is made every 2 s shows the end
// within 12 s.
const shownFor = timing.StatusLife - time.Second

// heard is the latest text of a node.
type heard struct {
	pulse.Node

	ago time.Duration
}

// sampling is what samples say of all shards.
type sampling struct {
	timers    float64
	looked    int
	unreached []string // shards
}

// maxNodes is how many nodes are shown: somebody may have written anything.
const maxNodes = 1000

// hear reads what the nodes have told all shards.
func (o *Observer) hear(ctx context.Context) telling {
	said, unreached := askAll(ctx, o, o.shards.Store.Told)
	latest := make(map[string]store.Told)
	for _, told := range said {
		for id, t := range told {
			if known, is := latest[id]; !is || t.Ago < known.Ago {
				latest[id] = t
			}
		}
	}
	all := telling{nodes: make(map[string]heard, len(latest)), unreached: unreached, at: time.Now()}
	for _, id := range slices.Sorted(maps.Keys(latest)) {
		if len(all.nodes) == maxNodes {
			break
		}
		if node, err := pulse.Parse(latest[id].Text); err == nil {
			all.nodes[id] = heard{node, max(latest[id].Ago, 0)}
		}
	}
	return all
}

// sample samples all shards.
func (o *Observer) sample(ctx context.Context) (all sampling) {
	found, unreached := askAll(ctx, o, o.shards.Store.Sample)
	for _, s := range found {
		all.timers, all.looked = all.timers+s.Timers, all.looked+s.Looked
	}
	all.unreached = unreached
	return all
}

// askAll asks all shards at the same time, except shards that are away, and names the shards without an answer.
func askAll[T any](ctx context.Context, o *Observer, ask func(ctx context.Context, name string) (T, error)) (answers []T, unreached []string) {
	ctx, cancel := o.config.Awake.WithTimeout(ctx, askPatience)
	defer cancel()
	all := slices.SortedFunc(maps.Values(o.shards.All()), func(a, b *shard.Shard) int { return cmp.Compare(a.Index, b.Index) })
	said, errs := make([]T, len(all)), make([]error, len(all))
	var asked sync.WaitGroup
	for i, sh := range all {
		if sh.Away() {
			errs[i] = timer.ErrUnavailable
			continue
		}
		asked.Go(func() { said[i], errs[i] = ask(ctx, sh.Name) })
	}
	asked.Wait()
	for i, sh := range all {
		if errs[i] != nil {
			unreached = append(unreached, sh.Name)
			continue
		}
		answers = append(answers, said[i])
	}
	return answers, unreached
}
