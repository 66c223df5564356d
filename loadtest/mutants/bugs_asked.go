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
