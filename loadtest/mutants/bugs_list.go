package main

// listBugs are bugs of the list of timers.
func listBugs() []bug {
	return []bug{
		{
			Name: "list-without-leased", What: "A list leaves out the timers that are being called back.",
			Edits: []edit{{"list.lua", "", "if after_ms <= now_ms + hot_ms then", "if after_ms > now_ms + hot_ms then"}},
			Hints: []hint{{Package: "redisstore", Run: "TestContractMini/1_shards/list_tells_of_what_is_leased"}},
		},
		{
			Name: "list-again-at-one-instant", What: "A page begins with the last timers of the page before, if many timers are due at one instant.",
			Edits: []edit{{"behind", "list.lua", "if a ~= b then return a > b end", "if a ~= b then return true end"}},
			Hints: []hint{{Package: "redisstore", Run: "TestContractMini/1_shards/list_goes_on_behind_a_place"}},
		},
		{
			Name: "list-finds-in-opaque", What: "A search finds timers by their secrets.",
			Edits: []edit{{"brief_of", "list.lua", "and (has(key, text) or has(uri, text))", ""}},
			Hints: []hint{{Package: "redisstore", Run: "TestContractMini/1_shards/list_picks"}},
		},
		{
			Name: "list-goes-too-far", What: "A list goes on behind the last place that a shard has read, and leaves out the shard's timers between.",
			Edits: []edit{{"(*Walk).list", "", "page.Until.Compare(*until) < 0", "page.Until.Compare(*until) > 0"}},
			Hints: []hint{{Package: "scheduler", Run: "TestListLeavesOutNothingBetweenShards", Own: true}},
		},
		{
			Name: "list-shows-any-copy", What: "A list shows an old copy of a timer that another shard has a newer copy of.",
			Edits: []edit{{"(*Walk).find", "", "|| order > 0", "|| order < 0"}},
			Hints: []hint{{Package: "scheduler", Run: "TestListShows|TestListMissesNothing|TestResync"}},
		},
		{
			Name: "list-of-two-topologies", What: "The pages before and behind a change of the shards make one list, and leave out timers that moved.",
			Edits: []edit{{"readCursor", "", "c.View != view", `c.View == ""`}},
			Hints: []hint{{Package: "scheduler/listing", Run: "TestCursorsOfOthersAreRefused"}},
		},
		{
			Name: "cursor-of-another-filter", What: "A page goes on from the place of a list with other conditions.",
			Edits: []edit{{"readCursor", "", " || c.Filter != hashOf(f)", ""}},
			Hints: []hint{{Package: "scheduler/listing", Run: "TestCursorsOfOthersAreRefused"}},
		},
		{
			Name: "cursor-shows-keys", What: "A client who may see the timers of a prefix reads the keys of others in the cursor.",
			Edits: []edit{{"(*Lister).list", "", "cursorOf(q.Filter.veil(*next)", "cursorOf(*next"}},
			Hints: []hint{{Package: "scheduler", Run: "TestCursorsOfAPrefixShowNoOtherKey"}},
		},
		{
			Name: "list-without-rest", What: "A search keeps the shards busy all the time.",
			Edits: []edit{{"(*Lister).tire", "", "(share - 1) * took", "(share - share) * took"}},
			Hints: []hint{{Package: "scheduler", Run: "TestListIsBounded"}},
		},
	}
}

// overviewBugs are bugs of changes to many timers, and of nodes that tell of themselves.
func overviewBugs() []bug {
	return []bug{
		{
			Name: "bulk-changes-newer", What: "A change to many timers overwrites what was written after the list.",
			Edits: []edit{{"(*Lister).change", "", "timer.Condition{OneOf: []timer.Version{t.Version.Written()}}", "timer.Condition{}"}},
			Hints: []hint{{Package: "scheduler", Run: "TestBulk"}},
		},
		{
			Name: "bulk-delays-twice", What: "A timer that a bulk change has delayed is delayed again on a later page.",
			Edits: []edit{{"(*Lister).Bulk", "", "t.Version.Written() > begun ||", ""}},
			Hints: []hint{{Package: "scheduler", Run: "TestBulkDelaysOnce", Own: true}},
		},
		{
			Name: "bulk-fires-twice", What: "A recurring timer that a bulk change has fired is fired again on a later page.",
			Edits: []edit{{"(*Lister).Bulk", "", "|| b.Action == Fire && t.popped(begun.Time())", ""}},
			Hints: []hint{{Package: "scheduler", Run: "TestBulkFiresOnce", Own: true}},
		},
		{
			Name: "list-without-rest-between-pages", What: "A reader who goes on at once leaves the shards no rest.",
			Edits: []edit{{"(*reader).read", "listing", `again := r.q.Cursor != ""`, "again := false"}},
			Hints: []hint{{Package: "scheduler", Run: "TestListIsBounded", Own: true}},
		},
		{
			Name: "bulk-dry-run-changes", What: "A dry run changes timers.",
			Edits: []edit{{"(*Lister).Bulk", "", "if b.DryRun {", "if b.DryRun && len(page.Timers) == 0 {"}},
			Hints: []hint{{Package: "scheduler", Run: "TestBulk"}},
		},
		{
			Name: "dead-node-stays", What: "A node that is gone for good is shown for ever.",
			Edits: []edit{{"beat.lua", "", "> forget_ms then redis.call('HDEL', status, id)", "> 1000 * forget_ms then redis.call('HDEL', status, id)"}},
			Hints: []hint{{Package: "redisstore", Run: "TestContractMini/1_shards/.*node"}},
		},
		{
			Name: "figures-of-long-ago", What: "A node that calls nobody any more shows the figures of its last callbacks for ever.",
			Edits: []edit{{"(*Recorder).turn", "", "passed >= 2*half {", "passed < 2*half {"}},
			Hints: []hint{{Package: "scheduler/pulse", Run: "TestFiguresAreOfTheLastSeconds"}},
		},
	}
}
