package scheduler

import "time"

// place is where a copy of a timer may be.
type place struct {
	shard *shard
	rank  int  // of the copy that belongs there, or is there in another's stead
	home  bool // one belongs there
}

// offset is how long after a pop the copy is looked at: so long does it leave the
// pop to the better ones. No two of a timer are due at the same time.
func (p place) offset(skew time.Duration) time.Duration {
	if p.home {
		return time.Duration(p.rank) * skew
	}
	return time.Duration(p.rank)*skew + skew/2
}

// places are where the copies of a timer belong, in rank order, and then where
// else some may be (rule P8): where the filter of its ID points, and where its
// record says. The filter is a hint, the union is the truth. With a replication
// factor of 0, which is not known, a copy may belong anywhere.
func (s *Scheduler) places(id ID, away []Away) []place {
	ranked := s.store.Rank(id.Key)
	homes := len(ranked)
	if id.RF > 0 {
		homes = min(homes, id.RF)
	}
	all := make([]place, homes, homes+len(away))
	for rank := range homes {
		all[rank] = place{shard: s.shards[ranked[rank]], rank: rank, home: true}
	}
	if homes == len(ranked) {
		return all
	}
	for _, a := range away {
		all = s.withPlace(all, a.Shard, a.Rank)
	}
	if !id.Hint.Empty() {
		for _, name := range s.store.Hinted(id.Hint) {
			all = s.withPlace(all, name, homes)
		}
	}
	return all
}

// withPlace adds a shard, if there is such a one and it isn't among them.
func (s *Scheduler) withPlace(all []place, name string, rank int) []place {
	sh := s.shards[name]
	if sh == nil || placed(all, sh) {
		return all
	}
	return append(all, place{shard: sh, rank: rank})
}

func placed(all []place, sh *shard) bool {
	for _, p := range all {
		if p.shard == sh {
			return true
		}
	}
	return false
}

// hintOf is the filter of an ID whose timer has copies at these places.
func (s *Scheduler) hintOf(all []place) (hint Hint) {
	for _, p := range all {
		hint |= p.shard.mask
	}
	return hint
}
