package redisstore

import (
	"context"

	"chronos/redisstore/endpoint"
	"chronos/redisstore/shard"
	"chronos/redisstore/topology"
	"chronos/scheduler/store"
)

// ShardReport is how one shard of the topology stands.
type ShardReport struct {
	topology.Member // its URL is without what is secret
	State           topology.State
	Epoch           int64  // of the topology that it holds, 0 for none
	Copies          int64  // timers and tombstones of this store's lane
	Swept           int    // partitions of them that need no sweep, of Partitions
	Twin            string // another shard in the same Redis process, "" if there is none
	Err             error  // why it could not be asked; Copies and Swept say nothing then
}

// Inspect asks all shards of the topology how they stand.
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
