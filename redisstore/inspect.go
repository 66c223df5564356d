package redisstore

import (
	"context"

	"chronos/redisstore/endpoint"
	"chronos/redisstore/shard"
	"chronos/redisstore/topology"
	"chronos/scheduler/store"
)

var _ store.Inspector = (*Store)(nil)

// Inspect is store.Inspector's.
func (s *Store) Inspect(ctx context.Context) store.Inspection {
	p := s.Placement()
	t, shards := p.Topology, own(p.Shards)
	found := store.Inspection{Epoch: t.Epoch, View: t.View(), Moving: t.Next != nil || len(t.Former) > 0, Shards: make([]store.ShardReport, len(t.Shards))}
	scatter(t.Shards, func(i int, m topology.Member) {
		r := &found.Shards[i]
		epoch := s.inspect(ctx, shards[i], t.EpochOf(m.Name), r)
		_, r.Lost = t.Lost[m.Name]
		r.Name, r.URL, r.State = m.Name, endpoint.WithoutSecrets(m.URL), string(t.StateOf(m.Name))
		twin := ""
		if other := topology.TwinOf(p.Shards[i], p.Shards); other != nil {
			twin = other.Name()
		}
		r.Twin = twin != ""
		r.Problem = problemOf(r, epoch < t.Epoch, twin) // a later epoch is a change that this node has not read yet
		r.Removable = r.Err == nil && r.Copies == 0 && t.Next == nil && t.StateOf(m.Name) == topology.Draining && s.SaysDrained(m.Name)
	})
	return found
}

// problemOf says what is wrong with a shard; "" for nothing. A behind shard does not hold the epoch.
func problemOf(r *store.ShardReport, behind bool, twin string) string {
	switch {
	case r.Lost && r.Err != nil:
		return "given up: it has been away for longer than CHRONOS_AWAY_LIMIT; bring it back, or drain and remove it with --force: " + r.Err.Error()
	case r.Lost:
		return "it is back after it was given up, and fires nothing until it is swept"
	case r.Err != nil:
		return r.Err.Error()
	case behind:
		return "it does not hold this epoch"
	case twin != "":
		return "it is a database of the same Redis as shard " + twin + ": both are lost together, and are worth one copy"
	}
	return ""
}

// inspect asks a shard, and returns the epoch of the topology that the shard holds, 0 for no topology.
func (s *Store) inspect(ctx context.Context, sh *shard.Shard, moved int64, r *store.ShardReport) (epoch int64) {
	held, err := topology.HeldBy(ctx, sh)
	if r.Err = err; err != nil {
		return 0
	}
	if held != nil {
		epoch = held.Epoch
	}
	var survey store.Survey
	if survey, r.Err = s.Survey(ctx, sh.Name()); r.Err != nil {
		return epoch
	}
	r.Copies, r.Letters, r.Due, r.Overdue = survey.Pending+survey.Tombstones, survey.Letters, survey.Due, survey.Overdue
	state, err := sh.Swept(ctx, s.lane)
	if r.Err = err; err != nil {
		return epoch
	}
	for p := range state.Marks {
		if state.Done(p, moved) {
			r.Swept++
		}
	}
	r.Facts, r.Err = sh.Facts(ctx)
	return epoch
}
