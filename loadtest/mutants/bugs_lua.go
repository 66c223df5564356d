package main

// recordBugs are bugs of a write to a copy.
func recordBugs() []bug {
	return []bug{
		{
			Name: "merge-onto-newer", What: "A write replaces a copy that is newer than the write.",
			Edits: []edit{{"refused", "merge.lua", "if order < 0 or order == 0 and revisions < 0 then return", "if order == 0 and revisions < 0 then return"}},
			Hints: []hint{{Package: "redisstore", Run: "TestContractMini/1_shards/newer_wins"}},
		},
		{
			Name: "mark-not-kept", What: "A write removes the mark of a callback that may still start.",
			Edits: []edit{
				{"make.state", "merge.lua", "c.firing = mark_of(old)", "c.firing = 0"},
				{"tombstone_of", "merge.lua", "c.firing, c.away = mark_of(old),", "c.firing, c.away = 0,"},
			},
			Hints: []hint{{Package: "redisstore", Run: "TestContractMini/1_shards/every_merge_keeps_the_mark"}},
		},
		{
			Name: "done-leaves-nothing", What: "An outcome that ends a timer leaves no tombstone where it finds an older copy.",
			Edits: []edit{{"make.done", "merge.lua", "old and not ended(old) and string.sub(old, 4, 31) == string.sub(new, 4, 31)", "old"}},
			Hints: []hint{{Package: "redisstore", Run: "TestDoneRemovesOnlyItsPredecessor"}},
		},
		{
			Name: "leased-write-without-lease", What: "A leased write changes a copy though the lease is gone.",
			Edits: []edit{{"refused", "merge.lua", "elseif token ~= '' and lease ~= token and not fired(lease, token) then return 'lost' end", "end"}},
			Hints: []hint{{Package: "redisstore", Run: "TestLeasedWriteNeedsItsLease"}},
		},
		{
			Name: "write-keeps-the-lease", What: "A client's write leaves the lease, so the outcome of the old version settles the new version.",
			Edits: []edit{{"merge", "merge.lua", "  if lease and not lease_stays then freed[#freed + 1] = key end\n", ""}},
			Hints: []hint{{Package: "redisstore", Run: "TestContractMini/1_shards/a_(delete|replace)_ends_a_lease"}},
		},
		{
			Name: "outcome-of-another-version", What: "A next pop or a retry that is told to another copy changes a copy of an earlier version.",
			Edits: []edit{
				{"refused", "merge.lua", "  if need == 'version' and not same_version(new, old) then return 'older' end\n", ""},
			},
			Hints: []hint{{Package: "redisstore", Run: "TestContractMini/1_shards/(next|again)_told_changes_nothing_but_its_own_state"}},
		},
		{
			Name: "leave-any-state", What: "The sweep removes a copy that has changed since the sweep read it.",
			Edits: []edit{{"refused", "merge.lua", "  if order < 0 or order == 0 and revisions < 0 then return 'newer' end\n  if not make or need == 'exact' and order > 0 then", "  if order < 0 and need ~= 'exact' then return 'newer' end\n  if not make then"}},
			Hints: []hint{{Package: "redisstore", Run: "TestLeaveRemovesExactlyWhatWasRead", Own: true}},
		},
		{
			Name: "late-write-executed", What: "A Redis that was stopped executes writes that are too old when it goes on.",
			Edits: []edit{{"merge.lua", "", "if now_ms > not_after_ms then return { now_us, 'late' } end\n", ""}},
			Hints: []hint{{Package: "redisstore", Run: "TestStoppedRedisExecutesNothingLate"}},
		},
		{
			Name: "start-rounded-down", What: "The start of a timer is rounded down to a millisecond, so callbacks are early.",
			Edits: []edit{{"merge.lua", "", "math.ceil(now_us / 1000)", "math.floor(now_us / 1000)"}},
			Hints: []hint{{Package: "redisstore", Run: "TestContractMini/1_shards/merge_never_rounds_down"}},
		},
	}
}

// overdueBugs are bugs of overdue pops.
func overdueBugs() []bug {
	return []bug{
		{
			Name: "pops-left-out-unsaid", What: "The fence does not count the overdue pops that it leaves out.",
			Edits: []edit{{"upcoming", "fire.lua", "left, seq = left + latest - seq, latest", "seq = latest"}},
			Hints: []hint{{Package: "redisstore", Run: "TestContractMini/1_shards/of_more_overdue_pops_the_latest_alone_is_called"}},
		},
		{
			Name: "overdue-pop-from-the-grid", What: "A next pop that is overdue is looked at by all copies at once, and not a skew apart.",
			Edits: []edit{{"look_at_pop", "merge.lua", "math.max(due_at, now_ms) + offset", "due_at + offset"}},
			Hints: []hint{{Package: "redisstore", Run: "TestContractMini/1_shards/a_next_pop_that_is_overdue_is_looked_at_from_when_it_is_told"}},
		},
	}
}

// outcomeBugs are bugs of the settlement of a leased copy.
func outcomeBugs() []bug {
	return []bug{
		{
			Name: "settle-without-token", What: "A node settles a timer that another node has leased by now.",
			Edits: []edit{{"settle", "settle.lua", "not record or not (lease == token or foreign)", "not record"}},
			Hints: []hint{{Package: "redisstore", Run: "TestContractMini/1_shards/settle_of_a_lease"}},
		},
		{
			Name: "sequence-stays", What: "The next pop has the sequence number of the pop before.",
			Edits: []edit{{"settle", "settle.lua", "c.seq, c.attempt = c.seq + 1, 0", "c.attempt = 0"}},
			Hints: []hint{{Package: "redisstore", Run: "TestContractMini/1_shards/settle_next_goes_to_the_next_pop_on_the_grid"}},
		},
		{
			Name: "next-pop-from-now", What: "The next pop is due an interval after the outcome, and not on the grid.",
			Edits: []edit{{"settle", "settle.lua", "c.seq, c.attempt = c.seq + 1, 0", "c.seq, c.attempt, c.start = c.seq + 1, 0, now_ms - c.seq * c.interval"}},
			Hints: []hint{{Package: "redisstore", Run: "TestContractMini/1_shards/settle_next_goes_to_the_next_pop_on_the_grid"}},
		},
		{
			Name: "retry-raises-the-sequence", What: "A retry has the sequence number of the next pop.",
			Edits: []edit{{"settle", "settle.lua", "c.failure, look = failure_of(reason), look + offset_ms", "c.seq, c.failure, look = c.seq + 1, failure_of(reason), look + offset_ms"}},
			Hints: []hint{{Package: "redisstore", Run: "TestContractMini/1_shards/settle_again"}},
		},
		{
			Name: "full-redis-drops-the-pop", What: "A Redis without free memory refuses the outcome that leaves a next pop.",
			Edits: []edit{{"flush", "settle.lua", "    redis.call('ZREM', due, kept[1])\n", ""}},
			Hints: []hint{{Package: "redisstore", Run: "TestFullServer"}},
		},
		{
			Name: "told-end-takes-a-leased-copy", What: "The end that another node tells removes a copy with a lease.",
			Edits: []edit{{"over", "merge.lua", "if lease or not record or", "if not record or"}},
			Hints: []hint{{Package: "redisstore", Run: "TestContractMini"}},
		},
		{
			Name: "told-end-of-another-pop", What: "The end that another node tells removes a copy that waits for another pop.",
			Edits: []edit{{"over", "merge.lua", "string.sub(record, 2, 31) ~= 'L' .. string.sub(head, 3, 31)", "string.sub(record, 2, 19) ~= 'L' .. string.sub(head, 3, 19)"}},
			Hints: []hint{{Package: "redisstore", Run: "TestContractMini"}},
		},
		{
			Name: "last-pop-leaves-its-record", What: "The record of a timer stays after the last pop.",
			Edits: []edit{{"flush", "settle.lua", "    redis.call('HDEL', timers, unpack(gone))\n", ""}},
			Hints: []hint{{Package: "redisstore", Run: "TestContractMini/1_shards/settle_done_leaves_nothing"}},
		},
	}
}

// claimBugs are bugs of claims, and thus of the choice of the node that fires a timer.
func claimBugs() []bug {
	return []bug{
		{
			Name: "later-format-given-up", What: "A record of a later format counts as damaged.",
			Edits: []edit{{"consider", "claim.lua", "if later(record) then", "if false then"}},
			Hints: []hint{{Package: "redisstore", Run: "TestLaterFormatsAreLeftAlone"}},
		},
		{
			Name: "claim-without-lease", What: "A claim notes no lease, so two nodes may claim one timer.",
			Edits: []edit{{"claim.lua", "", "  if taken > 0 then redis.call('HSET', leases, unpack(tokens)) end\n", ""}},
			Hints: []hint{{Package: "redisstore", Run: "TestContractMini/1_shards/claim_leases_to_one_node_only"}},
		},
		{
			Name: "late-claim-executed", What: "A Redis that was stopped executes an old claim, and nobody works on what the claim has leased.",
			Edits: []edit{{"claim.lua", "", "if now_ms > not_after_ms then return { now_us, 'late' } end\n", ""}},
			Hints: []hint{{Package: "redisstore", Run: "TestStoppedRedisExecutesNothingLate"}},
		},
		{
			Name: "claim-retried-by-the-client", What: "The Redis client sends a claim once more, and the timers of the first claim are leased to nobody.",
			Edits: []edit{{"bounds", "redisstore/endpoint", `"max_retries": "-1"`, `"max_retries": "3"`}},
			Hints: []hint{{Package: "redisstore/endpoint", Run: "TestConnectionsAreBounded"}},
		},
		{
			Name: "lease-by-the-nodes-clock", What: "A node compares when a claimed timer is due with the node's own clock, and not with the shard's clock.",
			Edits: []edit{{"(*Store).readClaims", "", "sh.Clock.Until(score)", "record.Until(score, time.Now().UnixMicro())"}},
			Hints: []hint{{Package: "redisstore", Run: "TestDueTimesAreOfTheShardsClock", Own: true}},
		},
		{
			Name: "due-by-the-nodes-clock", What: "The time when a timer is due is taken from the node's clock, and not from the shard's clock.",
			Edits: []edit{{"headOf", "redisstore/record", "return head, WholeMs(w.DueIn) - int64(w.State.Seq)*interval", `return appendStart(head, w.State.Version.Time().UnixMilli()+WholeMs(w.DueIn)-int64(w.State.Seq)*interval), ""`}},
			Hints: []hint{{Package: "redisstore", Run: "TestDueTimesAreOfTheShardsClock", Own: true}},
		},
	}
}

// callBugs are bugs of how script calls reach Redis.
func callBugs() []bug {
	return []bug{
		{
			Name: "an-error-hurts-all-partitions", What: "An error in one partition of a call is the answer to all partitions.",
			Edits: []edit{{"partitions.lua", "", "  if not ok then reply", "  if not ok then error(reply) end\n  if not ok then reply"}},
			Hints: []hint{{Package: "redisstore", Run: "TestAnErrorInOnePartitionStaysThere", Own: true}},
		},
		{
			Name: "lost-scripts-stay-lost", What: "Calls that go to Redis together are not sent again when Redis has forgotten the scripts.",
			Edits: []edit{{"(*Shard).converse", "", "if len(again) > 0 {", "if len(again) > 0 && len(calls) == 1 {"}},
			Hints: []hint{{Package: "redisstore", Run: "TestForgottenScripts"}},
		},
	}
}
