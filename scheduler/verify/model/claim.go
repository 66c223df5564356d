package model

// claim is a node's poll of a shard: a due copy is leased.
func (x *stepper) claim(n, shard int8) {
	c, epoch := &x.now.Copies[shard], x.now.Changing.Epochs[n]
	if !x.sc.knows(epoch, shard) || x.sc.out(epoch, shard) || !x.now.reach(n, shard) || c.Kind != live || c.Score > x.now.Now {
		return
	}
	if x.sc.Rules.LossQuiet && x.now.LostOn&(1<<shard) != 0 {
		return
	}
	next := *x.now
	since := int8(0)
	if c.Score < x.now.due(x.sc, c.Version, c.Pop, 0) {
		since = c.Score
	}
	own := &next.Copies[shard]
	own.Token, own.Fired, own.Score = firstToken+n, false, x.now.Now+grace+x.sc.Variants.AskAhead
	next.Tasks[n][shard] = task{Phase: held, Version: c.Version, Pop: c.Pop, Attempt: c.Attempt, Rank: c.Rank, Epoch: epoch, Rev: c.Rev}
	if t := &next.Tasks[n][shard]; x.sc.fires() {
		t.Since, t.Again = since, c.Attempt > 0
	}
	over := ""
	if c.Token != noToken {
		over = " (the lease has ended)"
	}
	x.urgent(&next, "N%d S%d: claims v%d pop %d%s", n, shard, c.Version, c.Pop, over)
	if x.mayLose() {
		next.Tasks[n][shard] = task{}
		own.Token = lostToken
		next.Budget--
		x.maybe(&next, "N%d S%d: claims, ANSWER LOST", n, shard)
	}
}

// removeTombstone is rule "tombstones outlive what was missed": a node that takes all shards for
// complete removes a tombstone whose life is over.
func (x *stepper) removeTombstone(n, shard int8) {
	c := &x.now.Copies[shard]
	if c.Kind != tombstone || c.Score > x.now.Now || c.Mark > x.now.Now || !x.now.reach(n, shard) {
		return
	}
	if x.sc.Rules.TombstonesWait && x.now.Unswept[n] != 0 {
		return
	}
	next := *x.now
	next.Copies[shard] = stored{}
	x.urgent(&next, "N%d S%d: removes the tombstone", n, shard)
}
