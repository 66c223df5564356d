package main

// patchBugs are bugs of a PATCH.
func patchBugs() []bug {
	return []bug{
		{
			Name: "patch-not-asked", What: "A copy calls though another copy has a newer revision.",
			Edits: []edit{{"(*question).weigh", "", "newest.Lacks(d.State)", "d.State.Compare(newest) > 0"}},
			Hints: []hint{{Package: "scheduler", Run: "TestACopyAdoptsAPatch"}},
		},
		{
			Name: "missed-patch-stays-missed", What: "The outcome of a pop leaves a copy that has missed a PATCH without the PATCH.",
			Edits: []edit{{"(*claim).heard", "", ", c.Record.State.Revised(answer.State):", ":"}},
			Hints: []hint{{Package: "scheduler", Run: "TestAMissedPatchIsRepaired"}},
		},
		{
			Name: "patch-unconditional", What: "The first owner takes a PATCH though another PATCH came after the reading.",
			Edits: []edit{{"(*attempt).planFirst", "", "a.writeTo(t).If(a.judged.Newest)", "a.writeTo(t)"}},
			Hints: []hint{{Package: "scheduler", Run: "TestNoPatchIsLost"}},
		},
		{
			Name: "refused-but-in-force", What: "A write that the best copy refused for a newer write with a condition counts as replaced since.",
			Edits: []edit{{"(*verdict).replaced", "", "&& (v.barred == nil || v.first.Rank < v.barred.Rank)", ""}},
			Hints: []hint{{Package: "scheduler", Run: "TestAConditionHoldsWhereAnotherWriteIsReplaced"}},
		},
		{
			Name: "patch-leaves-the-lease", What: "A PATCH leaves the lease of a claim that has not fired.",
			Edits: []edit{{"revise", "merge.lua", "return is, fenced", "return is, lease"}},
			Hints: []hint{{Package: "redisstore", Run: "TestContractMini/1_shards/amend_ends_the_lease"}},
		},
		{
			Name: "patch-ends-a-callback", What: "A PATCH ends the lease of a callback that has begun.",
			Edits: []edit{{"revise", "merge.lua", "return is, fenced", "return is, false"}},
			Hints: []hint{{Package: "redisstore", Run: "TestContractMini/1_shards/amend_leaves_a_callback_alone"}},
		},
		{
			Name: "newer-state-drops-the-patch", What: "A newer state takes the place of a newer revision.",
			Edits: []edit{{"make.state", "merge.lua", "if revisions < 0 then new", "if false then new"}},
			Hints: []hint{{Package: "redisstore", Run: "TestContractMini/1_shards/a_revision_stays"}},
		},
		{
			Name: "patched-end-leaves-nothing", What: "The end of a timer that got a PATCH during its callback leaves no tombstone.",
			Edits: []edit{{"settle", "settle.lua", "keep_ms = math.max(keep_ms, revised_ms)", "keep_ms = keep_ms + 0"}},
			Hints: []hint{{Package: "redisstore", Run: "TestContractMini/1_shards/done_leaves_a_tombstone"}},
		},
		{
			Name: "patch-makes-a-copy", What: "A PATCH makes a copy where none is.",
			Edits: []edit{{"merge.lua", "merge.lua", "amend = 'copy',", "amend = 'any',"}},
			Hints: []hint{{Package: "redisstore", Run: "TestContractMini/1_shards/amend_makes_nothing"}},
		},
	}
}
