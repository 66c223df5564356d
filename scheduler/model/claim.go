package model

// claim is a node's poll of one shard: what is due is leased.
func (x *stepper) claim(n, shard int8) {
	c := &x.now.Copies[shard]
	if !x.sc.knows(x.now.Changing.Epochs[n], shard) || x.sc.out(x.now.Changing.Epochs[n], shard) || !x.now.reach(n, shard) || c.Kind != live || c.Score > x.now.Now {
		return
	}
	if x.sc.Variants.LossQuiet && x.now.WipedOn&(1<<shard) != 0 {
		return
	}
	next := *x.now
	next.lease(x.sc, n, shard)
	next.Tasks[n][shard] = x.taskOf(n, c, held)
	over := ""
	if c.Token != noToken {
		over = " (takes over a lease)"
	}
	x.urgent(&next, "N%d S%d: claims v%d pop %d%s", n, shard, c.Version, c.Pop, over)
	if x.mayLose() {
		next.Tasks[n][shard] = task{}
		next.Copies[shard].Token = lostToken
		next.Budget--
		x.maybe(&next, "N%d S%d: claims, ANSWER LOST", n, shard)
	}
}

func (s *state) lease(sc *Scenario, n, shard int8) {
	s.Copies[shard].Token = firstToken + n
	s.Copies[shard].Fired = false
	s.Copies[shard].Score = s.Now + grace + sc.Variants.AskAhead
}

func (x *stepper) taskOf(n int8, c *stored, phase int8) task {
	return task{
		Phase: phase, Version: c.Version, Pop: c.Pop, Attempt: c.Attempt, Rank: c.Rank, Epoch: x.now.Changing.Epochs[n],
		Named: c.Named,
	}
}

// bury is rule "tombstones outlive what was missed": a tombstone whose time is over is
// removed, once the copies it names were told.
func (x *stepper) bury(n, shard int8) {
	c := &x.now.Copies[shard]
	if c.Kind != tombstone || x.sc.Life == 0 || c.Score > x.now.Now || c.Mark > x.now.Now || !x.now.reach(n, shard) {
		return
	}
	if x.sc.Rules.TombstonesWait && x.now.Unswept[n] != 0 {
		return
	}
	next := *x.now
	if c.Owed == 0 && !c.Named || !x.sc.home(x.now.Changing.Epochs[n], shard) {
		next.Copies[shard] = stored{}
		x.urgent(&next, "N%d S%d: buries the tombstone", n, shard)
		return
	}
	for o := range x.sc.Homes {
		if c.Owed&(1<<o) != 0 && x.now.reach(n, o) {
			next.Copies[shard].Owed &^= 1 << o
			next.merge(x.sc, o, written{kind: tombstone, version: c.Version, why: asDelete})
		}
	}
	if away := x.sc.Homes; c.Named && x.now.reach(n, away) {
		next.Copies[shard].Named = false
		next.merge(x.sc, away, written{kind: tombstone, version: c.Version, why: asDelete})
	}
	next.Copies[shard].Score = x.now.Now + 1
	x.urgent(&next, "N%d S%d: tells for the tombstone who was not told (%b)", n, shard, c.Owed)
}
