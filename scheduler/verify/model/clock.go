package model

// tick moves the clock on, and forgets the past: states with the same future become equal.
func (x *stepper) tick() {
	next := *x.now
	next.Now++
	next.expire()
	if x.sc.Faults&Gap != 0 && x.now.Budget > 0 {
		next.Saved = [2][maxShards]stored{x.now.Copies, x.now.Saved[0]}
	}
	if next.Now >= x.sc.Heal {
		for n := range int8(nodes) {
			for shard := range x.sc.Shards {
				if next.Cut&link(n, shard) != 0 {
					next.wake(x.sc, shard, wayOfLinks+n)
				}
			}
		}
		next.Cut = 0
		for shard := range x.sc.Shards {
			if next.Shards[shard] == paused {
				next.back(x.sc, shard)
			}
		}
	}
	next.noteSilence(x.sc)
	if next.Changing.SteadyAt <= next.Now {
		next.Changing.SteadyAt = 0
	}
	if next.LostAt != 0 && next.Now >= next.LostAt-1+quietFor {
		next.LostOn = 0
	}
	if next.LostAt != 0 && next.Now >= next.LostAt-1+lossKnown {
		next.LostAt = 0
	}
	for i := range next.Copies {
		c := &next.Copies[i]
		if c.Mark <= next.Now {
			c.Mark = 0
		}
		c.Fired = c.Fired && c.Token != noToken
		if c.Kind == tombstone && c.Mark == 0 {
			c.Token = noToken
		}
		if c.Kind == tombstone && c.Mark == 0 && x.sc.Change != NoChange && c.Score <= next.Now {
			*c = stored{}
		}
	}
	for n := range next.Nodes {
		if next.Nodes[n] > 0 && next.Nodes[n] <= next.Now {
			next.Nodes[n] = 0
		}
		for shard := range next.Back[n] {
			if next.Back[n][shard] <= next.Now {
				next.Back[n][shard] = 0
			}
		}
	}
	x.maybe(&next, "-- tick %d", next.Now)
	x.blame(next.checkLate(x.sc))
}
