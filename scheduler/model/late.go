package model

// hold has a shard carry out an operation's write late (rule "no late writes"): when the shard, or the
// link to the shard, goes on. One write of each operation may be so late.
func (x *stepper) hold(next *state, i int, node, shard int8, b buffered) {
	b.On, b.Shard, b.NotAfter = 1, shard, x.now.Now+1
	switch {
	case x.now.Buffered[i].On != 0:
		return
	case x.now.Shards[shard] == away:
	case x.sc.LinkHolds && x.now.Cut&link(node, shard) != 0:
		b.Link = node + 1
	default:
		return
	}
	next.Buffered[i] = b
}

// wake carries out what a paused shard, or one behind a cut link, was sent meanwhile (rule "no late writes").
func (s *state) wake(sc *Scenario, shard, link int8) {
	for i := range s.Buffered {
		if b := s.Buffered[i]; b.On != 0 && b.Shard == shard && b.Link == link {
			s.Buffered[i] = buffered{}
			s.execute(sc, i, &b)
		}
	}
}

func (s *state) execute(sc *Scenario, i int, b *buffered) {
	if sc.Rules.NotAfter && b.Delete == 0 && s.Now > b.NotAfter {
		return
	}
	if b.Delete != 0 {
		s.merge(sc, b.Shard, written{
			kind: tombstone, version: b.Version, score: forever, rank: b.Rank, why: asDelete, epoch: s.Ops[i].Epoch,
		})
		return
	}
	w := written{
		kind: live, version: b.Version, pop: 1, score: s.due(sc, b.Version, 1, b.Rank), rank: b.Rank, why: asCreate,
		epoch: s.Ops[i].Epoch,
	}
	if sc.Change != NoChange {
		w.why = asState
	}
	s.merge(sc, b.Shard, w)
}
