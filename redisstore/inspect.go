package redisstore

import (
	"context"

	"chronos/redisstore/endpoint"
	"chronos/redisstore/shard"
	"chronos/redisstore/topology"
	"chronos/scheduler/store"
)

// ShardReport is the condition of one shard of the topology.
type ShardReport struct {
	topology.Member // the URL is without secrets
	State           topology.State
	Epoch           int64  // of the topology that the shard holds, 0 for no topology
	Copies          int64  // timers and tombstones of this store's deliverer kind
	Swept           int    // partitions that need no sweep, of Partitions
	Twin            string // another shard in the same Redis process; "" for no twin
	Err             error  // why the shard could not be asked; Copies and Swept then say nothing
}

// Inspect asks all shards of the topology for their condition.
func (s *Store) Inspect(ctx context.Context) (topology.Topology, []ShardReport) {
	p := s.Placement()
	t, shards := p.Topology, own(p.Shards)
	reports := make([]ShardReport, len(t.Shards))
	scatter(t.Shards, func(i int, m topology.Member) {
		reports[i] = s.inspect(ctx, shards[i], t.EpochOf(m.Name))
		reports[i].Member, reports[i].State = topology.Member{Name: m.Name, URL: endpoint.WithoutSecrets(m.URL)}, t.StateOf(m.Name)
	})
	for i := range reports {
		if twin := topology.TwinOf(p.Shards[i], p.Shards); twin != nil {
			reports[i].Twin = twin.Name()
		}
	}
	return t, reports
}

func (s *Store) inspect(ctx context.Context, sh *shard.Shard, moved int64) (r ShardReport) {
	held, err := topology.HeldBy(ctx, sh)
	if r.Err = err; err != nil {
		return r
	}
	if held != nil {
		r.Epoch = held.Epoch
	}
	var survey store.Survey
	if survey, r.Err = s.Survey(ctx, sh.Name()); r.Err != nil {
		return r
	}
	r.Copies = survey.Pending + survey.Tombstones
	state, err := sh.Swept(ctx, s.lane)
	if r.Err = err; err != nil {
		return r
	}
	for p := range state.Marks {
		if state.Done(p, moved) {
			r.Swept++
		}
	}
	return r
}
