package model

// hold has a client's write arrive late (rule "no late writes"): when the shard, or the link to
// the shard, is back. One write of every client may be so late.
func (x *stepper) hold(next *state, i int, node, shard int8, b delayed) {
	switch {
	case x.now.Delayed[i].On != 0:
	case x.now.Shards[shard] == paused:
		next.delay(i, shard, b, wayOfShard)
	case x.sc.LinkHolds && x.now.Cut&link(node, shard) != 0:
		next.delay(i, shard, b, wayOfLinks+node)
	}
}

// delay keeps a write that arrives late. The write is valid for a second.
func (s *state) delay(i int, shard int8, b delayed, way int8) {
	b.On, b.Shard, b.NotAfter, b.Way = 1, shard, s.Now+1, way
	s.Delayed[i] = b
}

// wake carries out the writes that were sent to a shard on this way while the way was closed.
func (s *state) wake(sc *Scenario, shard, way int8) {
	for i := range s.Delayed {
		if b := s.Delayed[i]; b.On != 0 && b.Shard == shard && b.Way == way {
			s.arrive(sc, i)
		}
	}
}

// arriveAgain has a write that was sent twice arrive a second time.
func (x *stepper) arriveAgain() {
	for i := range x.now.Delayed {
		if b := &x.now.Delayed[i]; b.On != 0 && b.Way == wayOfRetry && x.now.reach(0, b.Shard) {
			next := *x.now
			next.arrive(x.sc, i)
			x.maybe(&next, "v%d arrives at S%d again", b.Version, b.Shard)
		}
	}
}

// arrive carries out a late write.
func (s *state) arrive(sc *Scenario, i int) {
	b, epoch := s.Delayed[i], s.Ops[i].Epoch
	s.Delayed[i] = delayed{}
	switch {
	case b.Hastens:
		if !sc.Rules.NotAfter || s.Now <= b.NotAfter {
			s.hasten(sc, i, b.Shard)
		}
	case b.Delete != 0:
		s.merge(sc, b.Shard, written{kind: tombstone, version: b.Version, score: forever, rank: b.Rank, why: asDelete, epoch: epoch})
	case b.Rev > 0 && (!sc.Rules.NotAfter || s.Now <= b.NotAfter):
		s.merge(sc, b.Shard, s.wanted(sc, i, b.Shard))
	case b.Rev > 0:
	case !sc.Rules.NotAfter || s.Now <= b.NotAfter:
		s.merge(sc, b.Shard, written{
			kind: live, version: b.Version, pop: 1, score: s.due(sc, b.Version, 1, b.Rank), rank: b.Rank, epoch: epoch,
		})
	}
}

// expire forgets writes that were sent twice and are not valid any more.
func (s *state) expire() {
	for i := range s.Delayed {
		if b := &s.Delayed[i]; b.Way == wayOfRetry && b.NotAfter < s.Now {
			*b = delayed{}
		}
	}
}
