package main

// askedBugs are bugs of what a timer may ask for itself.
func askedBugs() []bug {
	return []bug{
		{
			Name: "expiry-by-the-nodes-clock", What: "A pop expires by the clock of the node, and not of the shard.",
			Edits: []edit{{"foundBy", "redisstore", "record.WholeMs(f.ExpiresAfter))", "record.WholeMs(f.ExpiresAfter+time.Until(time.UnixMilli(f.Lease.Found.ScoreMs))))"}},
			Hints: []hint{{Package: "redisstore", Run: "TestPopsExpireByTheShardsClock", Own: true}},
		},
		{
			Name: "retry-past-expiry", What: "A retry is made though the pop has expired.",
			Edits: []edit{{"(*claim).fence", "", "ExpiresAfter: c.Record.Timer.ExpiresAfter", "ExpiresAfter: c.Record.Timer.ExpiresAfter * time.Duration(max(1-c.Record.State.Attempt, 0))"}},
			Hints: []hint{{Package: "scheduler", Run: "TestRetriesEndWhenThePopExpires"}},
		},
		{
			Name: "renewal-forgotten", What: "The fence of a long callback is not renewed.",
			Edits: []edit{{"(*renewals).due", "", "now-own.fenced >= age", "now-own.fenced >= age && own.bounded.deadline.IsZero()"}},
			Hints: []hint{{Package: "scheduler", Run: "TestOwnTimeout"}},
		},
		{
			Name: "condition-judged-by-one-copy", What: "A write on a condition is judged though an owner does not answer.",
			Edits: []edit{{"(*Keeper).judge", "", "c.unanswered(); err != nil", "c.unanswered(); err != nil && c.newest == nil"}},
			Hints: []hint{{Package: "scheduler", Run: "TestAConditionNeedsEveryOwner"}},
		},
		{
			Name: "first-owner-takes-any", What: "The first owner takes a write on a condition though a newer version is there.",
			Edits: []edit{{"exceeds", "merge.lua", "if order ~= 0 then return order > 0 end", "if order ~= 0 then return false end"}},
			Hints: []hint{{Package: "redisstore", Run: "TestContractMini/1_shards/a_condition_refuses_a_write_onto_a_newer_version"}},
		},
		{
			Name: "condition-decided-after-a-loss", What: "A Redis that has lost data decides about a write on a condition.",
			Edits: []edit{{"(*Store).undecided", "redisstore", "sh.Quiet() == 0", "sh.Quiet() >= 0"}},
			Hints: []hint{{Package: "redisstore", Run: "TestARestartedRedisDecidesNoCondition"}},
		},
		{
			Name: "prefix-not-held", What: "A token with a prefix reads timers of other prefixes.",
			Edits: []edit{{"readID", "", "!strings.HasPrefix(id.Key, prefixOf(c.Context()))", "!strings.HasPrefix(id.Key, \"\")"}},
			Hints: []hint{{Package: "api", Run: "TestIDsOfAPrefix"}},
		},
		{
			Name: "attempt-logged-twice", What: "A settlement that comes twice leaves two entries in the log of deliveries.",
			Edits: []edit{{"settle.lua", "settle.lua", "if attempt and reply[item + 1] == 'ok' then", "if attempt then"}},
			Hints: []hint{{Package: "redisstore", Run: "TestContractMini"}},
		},
		{
			Name: "pause-not-kept", What: "Timers of a paused destination are called.",
			Edits: []edit{{"(*Dispatcher).admit", "", "if rules.Paused(c.destination, now) {", "if rules.Paused(c.destination, now) && c.lane == nil {"}},
			Hints: []hint{{Package: "scheduler", Run: "TestAllNodesHearOfAPauseAndOfItsEnd"}},
		},
		{
			Name: "header-shown-in-letters", What: "The text of a dead letter that can't be read shows secret headers.",
			Edits: []edit{{"hideSecrets", "", "if at < 0 {", "if at >= 0 {"}},
			Hints: []hint{{Package: "api", Run: "TestAnswersHideSecretHeaders"}},
		},
		{
			Name: "members-in-the-first-format", What: "A record with headers has the first format, so an older node calls back without the headers.",
			Edits: []edit{{"headOf", "record", "head[0] = lastFormat", "head[0] = firstFormat"}},
			Hints: []hint{{Package: "redisstore", Run: "TestMembersOfTheSecondFormat", Own: true}},
		},
	}
}
