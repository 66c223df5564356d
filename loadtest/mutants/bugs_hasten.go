package main

// hastenBugs are bugs of a fire and of a delay.
func hastenBugs() []bug {
	return []bug{
		{
			Name: "fire-any-pop", What: "A fire hastens a later pop than the pop that was read.",
			Edits: []edit{{"refused", "merge.lua", "  if order < 0 or order == 0 and revisions < 0 then return 'newer' end", "  if kind ~= 'hasten' and (order < 0 or order == 0 and revisions < 0) then return 'newer' end"}},
			Hints: []hint{{Package: "redisstore", Run: "TestContractMini/1_shards/hasten_changes_no_copy_in_another_state"}},
		},
		{
			Name: "fire-not-spread", What: "A backup that was fired waits for a better copy that missed the fire.",
			Edits: []edit{{"(*claim).promote", "", "order < 0 || order == 0 && c.hastened()", "false"}},
			Hints: []hint{{Package: "scheduler", Run: "TestABackupHastensABetterCopy"}},
		},
		{
			Name: "fired-end-leaves-nothing", What: "The end of a pop that was fired leaves no tombstone, so a copy that was read before comes back.",
			Edits: []edit{{"(*claim).fit", "", " || c.hastened() || c.Record.State.Attempt > 0", ""}},
			Hints: []hint{{Package: "scheduler", Run: "TestACopyThatWasReadBeforeAFireIsRefused"}},
		},
		{
			Name: "patch-forgets-a-fire", What: "A PATCH of a fired timer that is leased puts the pop off until its own time.",
			Edits: []edit{{"revise", "merge.lua", "if not lease_end or lease_end > turn then score = turn end", "score = turn"}},
			Hints: []hint{{Package: "redisstore", Run: "TestContractMini/1_shards/an_amend_of_a_hastened_copy"}},
		},
		{
			Name: "delay-of-a-fired-pop", What: "The first owner takes a delay although the pop has been called meanwhile, and the pop comes again.",
			Edits: []edit{{"(*Keeper).Delay", "", "	found.Seq, found.Attempt = r.State.Seq, r.State.Attempt\n", ""}},
			Hints: []hint{{Package: "scheduler", Run: "TestAMoveThatComesTooLate"}},
		},
		{
			Name: "delay-begins-anew", What: "A delayed timer begins with its first pop again.",
			Edits: []edit{{"(*Creation).write", "", "Seq: max(c.Seq, 1)", "Seq: 1"}},
			Hints: []hint{{Package: "scheduler", Run: "TestADelayMovesTheGrid"}},
		},
	}
}
