package main

// sweepBugs are bugs of the sweep and of the topology.
func sweepBugs() []bug {
	return []bug{
		{
			Name: "sweep-copies-what-fires", What: "The sweep copies timers that are about to fire, or firing.",
			Edits: []edit{{"(*sweep).strayOf", "", "s.busy = s.aboutToFire(", "s.busy = false && s.aboutToFire("}},
			Hints: []hint{{Package: "scheduler", Run: "TestTheSweepLeavesAloneWhatIsAboutToFire", Own: true}},
		},
		{
			Name: "sweep-compares-ranks-alone", What: "The sweep leaves an owner's copy the time of a leftover, half a skew late.",
			Edits: []edit{{"(*stray).inTurn", "", "s.busy || r.State.Attempt > 0", "s.busy || true"}},
			Hints: []hint{{Package: "scheduler", Run: "TestACopyThatBecomesAnOwnersComesDueInItsTurn", Own: true}},
		},
		{
			Name: "sweep-removes-too-early", What: "The sweep removes a copy though an owner has not acknowledged its copy.",
			Edits: []edit{{"(*sweep).bringHome", "", "about[i].stays = true", "about[i].stays = false"}},
			Hints: []hint{{Package: "scheduler", Run: "TestTheSweepRemovesNoCopyThatTheOwnerLacks", Own: true}},
		},
		{
			Name: "sweep-does-not-wait", What: "The sweep begins right after a shard has lost data, while callbacks from before may still start.",
			Edits: []edit{{"(*sweep).sweepNext", "", "waited < timing.RepairDelay.Milliseconds()", "waited < 0"}},
			Hints: []hint{{Package: "scheduler", Run: "TestTheSweepWaitsAfterALoss", Own: true}},
		},
		{
			Name: "sweep-of-an-earlier-topology", What: "A partition that was swept for an earlier topology counts as swept.",
			Edits: []edit{{"(*SweepState).Done", "", "mark.Epoch >= epoch &&", "mark.Epoch >= epoch-epoch &&"}},
			Hints: []hint{{Package: "scheduler", Run: "TestASweepCountsForItsTopology", Own: true}},
		},
		{
			Name: "stale-topology-accepted", What: "A shard takes an earlier topology than the one that the shard holds.",
			Edits: []edit{{"topology.lua", "", "  if tonumber(old_epoch) >= epoch then return { now_us, 'newer' } end\n", ""}},
			Hints: []hint{{Package: "redisstore", Run: "TestAShardKeepsTheLaterTopology", Own: true}},
		},
		{
			Name: "stale-topology-followed", What: "A node goes back to an earlier topology that the shards agree on.",
			Edits: []edit{
				{"(*Cluster).weigh", "", "best != nil && best.Epoch > mine.Epoch {", "best != nil && best.Epoch != mine.Epoch {"},
				{"(*Cluster).adopt", "", "before.Topology.Epoch >= l.Epoch && c.sure.Load()", "before.Topology.Epoch == l.Epoch && c.sure.Load()"},
			},
			Hints: []hint{{Package: "redisstore/topology", Run: "TestANodeDoesNotGoBackToAnEarlierTopology", Own: true}},
		},
		{
			Name: "blind-node-writes", What: "A node that can't read the topology any more goes on writing.",
			Edits: []edit{{"(*Cluster).Writable", "", "since > timing.BlindFor", "since > 1000*timing.BlindFor"}},
			Hints: []hint{{Package: "redisstore/topology", Run: "TestANodeThatCannotReadTheTopologyWritesNothing", Own: true}},
		},
		{
			Name: "change-not-announced", What: "A change of the shards counts before all nodes have heard of the change.",
			Edits: []edit{{"(*Cluster).Follow", "", "c.enactAfter(ctx, c.o.Announced)", "c.enactAfter(ctx, 0)"}},
			Hints: []hint{{Package: "redisstore/topology", Run: "TestAChangeIsAnnouncedBeforeItCounts", Own: true}},
		},
	}
}

// lossBugs are bugs of the steps after a Redis has lost data.
func lossBugs() []bug {
	return []bug{
		{
			Name: "empty-redis-taken-for-valid", What: "A shard that has lost all data is taken for a shard that has missed nothing.",
			Edits: []edit{{"(*Shard).Swept", "", "state.Restarted = text(2) != *s.identity.Load()", `state.Restarted = text(2) != "" && text(2) != *s.identity.Load()`}},
			Hints: []hint{{Package: "redisstore", Run: "TestAnEmptyRedisHasMissedEverything", Own: true}},
		},
		{
			Name: "restarted-redis-fires", What: "Timers on a Redis that has just restarted are claimed at once.",
			Edits: []edit{{"(*Store).Claim", "redisstore", "err != nil || sh.Quiet() > 0", "err != nil || sh.Quiet() < 0"},
				{"(*Store).Claim", "redisstore", "if sh.Quiet() > 0 { //", "if sh.Quiet() < 0 { //"}},
			Hints: []hint{{Package: "redisstore", Run: "TestARestartedRedisIsQuiet", Own: true}},
		},
		{
			Name: "restart-noticed-too-late", What: "A Redis that has just restarted executes the claim with which a node notices the restart.",
			Edits: []edit{{"(*Shard).meet", "redisstore/shard", "return ErrNewProcess", "return fit(facts)"}},
			Hints: []hint{{Package: "redisstore/shard", Run: "TestACallMeetsANewProcessFirst", Own: true}},
		},
		{
			Name: "lost-marks-untold", What: "A write to a Redis that has just lost its data is not told that a callback may be under way.",
			Edits: []edit{{"readMerged", "redisstore", "max(answer.Firing, sh.Quiet())", "max(answer.Firing, 0*sh.Quiet())"}},
			Hints: []hint{{Package: "redisstore", Run: "TestAnEmptiedRedisIsQuiet", Own: true}},
		},
	}
}

// edgeBugs are bugs of the ways in: the HTTP API and Kafka.
func edgeBugs() []bug {
	return []bug{
		{
			Name: "request-buffer-reused", What: "A timer's key shares memory with the buffer of the request, which the next request overwrites.",
			Edits: []edit{{"readID", "api", "id.Key = strings.Clone(id.Key)", "_ = strings.Clone(id.Key)"}},
			Hints: []hint{{Package: "api", Run: "TestParallelRequestsDontMix"}},
		},
		{
			Name: "offset-committed-too-early", What: "The bridge commits the offset of a message before the store has answered.",
			Edits: []edit{{"(*partition).offer", "kafka", "p.queue = append(p.queue, own(r))", "p.queue = append(p.queue, own(r))\n\t\tp.marks.done(r.Offset)"}},
			Hints: []hint{{Package: "scheduler/kafka", Run: "TestCommitFollowsTheStore"}},
		},
	}
}
