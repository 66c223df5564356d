package main

// firingBugs are bugs on the way from a claim to the callback.
func firingBugs() []bug {
	return []bug{
		{
			Name: "skew-zero", What: "All copies of a timer come due at the same time.",
			Edits: []edit{{"Skew.Of", "", ".Round(time.Millisecond)", ".Round(time.Millisecond) * 0"}},
			Hints: []hint{{Package: "scheduler", Run: "TestACopyThatMissedAnEndFindsIt"}},
		},
		{
			Name: "fence-without-the-question", What: "A node calls back without asking the other copies.",
			Edits: []edit{
				{"(*lane).fenceWithin", "", "batch = l.ask(ctx, batch, patience)", "_ = patience"},
				{"(*claim).outdated", "", "len(c.others) > 0 &&", "len(c.others) < 0 &&"},
			},
			Hints: []hint{{Package: "scheduler", Run: "TestACopyThatMissedAnUpdateFindsItBeforeFiring"}},
		},
		{
			Name: "question-after-the-fence", What: "The other copies are asked after the fence, and not before.",
			Edits: []edit{{"(*lane).fenceWithin", "", "batch = l.ask(ctx, batch, patience)", "_ = patience"}},
			Hints: []hint{{Package: "scheduler", Run: "TestTheOtherCopiesAreAskedBeforeTheFence", Own: true}},
		},
		{
			Name: "no-last-look", What: "A node whose fence was answered late does not ask the other copies again before the callback.",
			Edits: []edit{{"(*lane).fenceWithin", "", "answers[i].Status == store.FencePassed && c.outdated()", "answers[i].Status == store.FenceFailed && c.outdated()"}},
			Hints: []hint{{Package: "scheduler", Run: "TestALateFenceIsFollowedByAnotherLook", Own: true}},
		},
		{
			Name: "callback-begins-too-late", What: "A callback may begin more than 2 s after the other copies were asked.",
			Edits: []edit{{"(*Dispatcher).fire", "", "began = min(began, c.asked)", "began = max(began, c.asked)"}},
			Hints: []hint{{Package: "scheduler", Run: "TestTheSendLimitBeginsWithTheComparison"}},
		},
		{
			Name: "no-jitter", What: "Retries have no jitter.",
			Edits: []edit{{"backoff", "dispatch", "return rand.N(r.Pause(attempt) + 1)", "return r.Pause(attempt) + 0*rand.N(r.Pause(attempt)+1)"}},
			Hints: []hint{{Package: "scheduler/dispatch", Run: "TestBackoffIsFullJitterUpToItsCap"}},
		},
		{
			Name: "one-destination-takes-all", What: "One destination that hangs may have all slots.",
			Edits: []edit{{"(*slots).available", "", "return d.used < free && (d.used == 0 || free > s.total/4)", "return free > 0 || d.used < 0"}},
			Hints: []hint{{Package: "scheduler/dispatch", Run: "TestSlotsAreShared"}},
		},
		{
			Name: "claims-without-end", What: "A node claims as much as its memory allows, however long the claims take.",
			Edits: []edit{{"(*Credit).limit", "", "return min(c.all, firstRoom+c.away+c.settled.Within(now, wayTime))", "return c.all + 0*c.settled.Within(now, wayTime)"}},
			Hints: []hint{{Package: "scheduler", Run: "TestNodesWithMoreThanTheirShardsCanDo"}},
		},
		{
			Name: "request-sent-twice", What: "A request whose answer did not come is sent again over another connection.",
			Edits: []edit{{"(*conn).exchange", "webhook", "return answer{}, &failure{stageRead, cause(ctx, err)}", "if reused {\n\t\t\treturn answer{}, &failure{stageRead, errUnused}\n\t\t}\n\t\treturn answer{}, &failure{stageRead, cause(ctx, err)}"}},
			Hints: []hint{{Package: "scheduler/webhook", Run: "TestRequestIsNeverSentTwice"}},
		},
		{
			Name: "fires-before-the-first-claims", What: "A backup does not yield to a copy on a shard that has answered no claim since the node started.",
			Edits: []edit{{"questionsOf", "dispatch", "!p.Shard.Failed() &&", "p.Shard.Usable() &&"}},
			Hints: []hint{{Package: "scheduler", Run: "TestABackupYieldsBeforeTheFirstClaims", Own: true}},
		},
	}
}

// yieldingBugs are bugs of how a backup leaves a pop to a better copy.
func yieldingBugs() []bug {
	return []bug{
		{
			Name: "backup-does-not-yield", What: "A copy that is due fires without looking for a better copy.",
			Edits: []edit{{"questionsOf", "dispatch", "Better: c.better(p) &&", "Better: false && c.better(p) &&"}},
			Hints: []hint{{Package: "scheduler", Run: "TestABackupYieldsToALeasedCopy"}},
		},
		{
			Name: "others-not-asked", What: "A node does without a shard that another node reaches.",
			Edits: []edit{{"(*claim).leftToOthers", "", "return c.overdue()", "return false && c.overdue()"}},
			Hints: []hint{{Package: "scheduler", Run: "TestAPopIsLeftToANodeThatReachesBothCopies"}},
		},
		{
			Name: "left-pop-comes-due-anew", What: "A pop that is left to another node comes due anew each time.",
			Edits: []edit{{"(*lane).ask", "", "l.d.putBack(c, -timing.LeftToOthers)", "l.d.putBack(c, 0)"}},
			Hints: []hint{{Package: "scheduler", Run: "TestARetryLeftToOthersIsCalledSoon"}},
		},
		{
			Name: "partitions-dropped-at-once", What: "A node stops polling a partition before the next node begins.",
			Edits: []edit{{"(*ownership).Turn", "", "case rank == 0, ago < handOverTime:", "case rank == 0:"}},
			Hints: []hint{{Package: "scheduler", Run: "TestTimersElsewhereAreOnTime"}},
		},
		{
			Name: "silence-begins-late", What: "A shard's silence counts from the begin of the first call that was given up.",
			Edits: []edit{{"(*Answers).Heard", "", " || began.real < s.since.real", ""}},
			Hints: []hint{{Package: "scheduler/shard", Run: "TestSilenceBeginsWithTheFirstCallThatGetsNoAnswer"}},
		},
		{
			Name: "yields-where-nothing-is-claimed", What: "A backup yields to a copy on a shard on which the node can claim nothing.",
			Edits: []edit{{"questionsOf", "dispatch", "c.better(p) && !p.Shard.Failed() &&", "c.better(p) &&"}},
			Hints: []hint{{Package: "scheduler", Run: "TestABackupFiresWhereNothingIsClaimed"}},
		},
		{
			Name: "yields-to-a-later-pop", What: "A backup that missed an outcome waits for its primary, and does not adopt the next pop.",
			Edits: []edit{{"(*question).weigh", "", "!c.isPassedBy(d.State) && ", ""}},
			Hints: []hint{{Package: "scheduler", Run: "TestABackupThatMissedAnOutcomeAdoptsTheNextPop", Own: true}},
		},
		{
			Name: "short-stops-hide-silence", What: "A node that is held up for a moment again and again waits for a silent shard for ever.",
			Edits: []edit{{"(*ticks).move", "", "step >= Standstill", "step >= Standstill/10"}},
			Hints: []hint{{Package: "scheduler/awake", Run: "TestClockStandsStillWhileTheProcessDoes", Own: true}},
		},
		{
			Name: "yields-to-an-older-version", What: "A backup waits for a better copy of an older version.",
			Edits: []edit{{"(*question).weigh", "", "d.LookIn >= 0 && d.State.Version == c.Record.State.Version &&", "d.LookIn >= 0 && d.State.Version <= c.Record.State.Version &&"}},
			Hints: []hint{{Package: "scheduler", Run: "TestAShardThatRefusesWritesIsNotWaitedFor"}},
		},
		{
			Name: "former-turn-waited-for", What: "A backup waits for the former turn of a better copy once the change of the shards is over.",
			Edits: []edit{{"(*claim).promote", "", "case order == 0 && (", "case order == 0 && c.lane.d.shards.Changing(c.Lease.Key) && ("}},
			Hints: []hint{{Package: "scheduler", Run: "TestANewPrimaryDoesNotWaitForItsFormerTurn"}},
		},
		{
			Name: "better-copy-keeps-its-former-rank", What: "A better copy waits by the rank that it had before the shards changed.",
			Edits: []edit{{"(*question).promote", "", "len(q.promotions) == 0", "len(q.promotions) >= 0"}},
			Hints: []hint{{Package: "scheduler", Run: "TestCopiesAreFoundWhenOwnersAreFewer"}},
		},
	}
}

// tellingBugs are bugs of telling an outcome to the copies without the lease.
func tellingBugs() []bug {
	return []bug{
		{
			Name: "outcome-told-to-nobody", What: "The other copies do not hear of an outcome.",
			Edits: []edit{{"(*lane).settleWithin", "", "if l.d.shards.Several() {", "if l.d.shards.Several() && patience == 0 {"}},
			Hints: []hint{{Package: "scheduler", Run: "TestCopiesAreWhereTheyBelongAndGoTogether"}},
		},
		{
			Name: "settled-before-told", What: "An outcome is settled before the other copies have heard of the outcome.",
			Edits: []edit{
				{"(*lane).settleWithin", "", "if l.d.shards.Several() {\n\t\tl.tell(ctx, batch, patience)\n\t}\n", ""},
				{"(*lane).settleWithin", "", "l.settled(ctx, c, answer)", "if l.d.shards.Several() {\n\t\t\tl.tell(ctx, []*claim{c}, patience)\n\t\t}\n\t\tl.settled(ctx, c, answer)"},
			},
			Hints: []hint{{Package: "scheduler", Run: "TestOutcomesAreToldBeforeTheyAreSettled", Own: true}},
		},
		{
			Name: "leftover-removed-without-an-owner", What: "An outcome removes a leftover though the owner that lacks a copy has changed meanwhile.",
			Edits: []edit{{"(*claim).restore", "", "all = false // the", "// the"}},
			Hints: []hint{{Package: "scheduler", Run: "TestAnOutcomeThatOutlivesAChangeOfTheShardsLosesNoTimer", Own: true}},
		},
		{
			Name: "restored-before-settled", What: "A missing copy is made when the outcome is told, before the leased copy has accepted the outcome.",
			Edits: []edit{{"(*claim).outcomeFor", "", "return store.Next(to, state, offset, c.failure())", "return store.Copy(to, &store.Record{State: state, Timer: c.Record.Timer, BodyHash: c.Record.BodyHash, Failure: c.failure()}, store.Times{DueIn: c.Record.Timer.Interval - c.sinceDue(), Offset: offset})"}},
			Hints: []hint{{Package: "scheduler", Run: "TestAMissingCopyIsMadeAfterTheSettlement", Own: true}},
		},
		{
			Name: "end-not-kept-by-owners", What: "An end that one owner has not heard is not kept by the other owners.",
			Edits: []edit{{"(*lane).tell", "", "\tl.d.send(bounded, lasting(batch))\n", ""}},
			Hints: []hint{{Package: "scheduler", Run: "TestAnEndThatACopyMissedIsKeptByAllOwners"}},
		},
		{
			Name: "young-end-leaves-nothing", What: "The end of a version that was written just now leaves no tombstone.",
			Edits: []edit{{"(*claim).fit", "", "< timing.YoungFor", "< 0"}},
			Hints: []hint{{Package: "scheduler", Run: "TestAnEarlierVersionThatArrivesAfterTheEndIsRefused", Own: true}},
		},
		{
			Name: "recurring-end-leaves-nothing", What: "The end of a recurring timer that was written long ago leaves no tombstone.",
			Edits: []edit{{"(*claim).fit", "", "c.pops() > 1 || ", ""}},
			Hints: []hint{{Package: "scheduler", Run: "TestACopyRestoredAfterTheEndOfARecurringTimerIsRefused", Own: true}},
		},
		{
			Name: "tombstone-goes-untold", What: "A tombstone goes though an owner that the tombstone names has not heard of the end.",
			Edits: []edit{{"(*lane).bury", "", "if !p.Home || c.names(p) {", "if !p.Home {"}},
			Hints: []hint{{Package: "scheduler", Run: "TestACopyThatMissedAnUpdateFindsItBeforeFiring"}},
		},
		{
			Name: "tombstones-do-not-wait", What: "Tombstones go while a shard is away that has not heard of the ends.",
			Edits: []edit{{"(*Dispatcher).keepTombstones", "", "return since", "return 0 * since"}},
			Hints: []hint{{Package: "scheduler", Run: "TestAnEndThatACopyMissedIsKeptByAllOwners"}},
		},
		{
			Name: "tombstone-life-one-second", What: "The tombstone of a deleted timer goes after one second.",
			Edits: []edit{{"Place.Tombstone", "", "Life: config.TombLife", "Life: time.Second"}},
			Hints: []hint{{Package: "scheduler", Run: "TestATombstoneStaysForItsLife", Own: true}},
		},
	}
}

// writeBugs are bugs of the requests of clients.
func writeBugs() []bug {
	return []bug{
		{
			Name: "version-of-the-own-clock", What: "A write's version follows the node's clock, though the node has heard of later versions.",
			Edits: []edit{{"(*latest).next", "", "v < known {", "v < known && tag == 0 {"}},
			Hints: []hint{{Package: "scheduler", Run: "TestAWriteIsNewerThanWhatItsNodeHasHeardOf"}},
		},
		{
			Name: "delete-tells-the-primary-alone", What: "A delete tells the first owner only.",
			Edits: []edit{{"(*attempt).plan", "", "if t.progress != toTell ||", "if t.progress != toTell || a.Timer == nil && t.Rank > 0 ||"}},
			Hints: []hint{{Package: "scheduler", Run: "TestAnswersNameUnreachedAndFiringCopies"}},
		},
		{
			Name: "unanswered-write-not-sent-again", What: "A write that no owner has answered is not sent again.",
			Edits: []edit{{"(*Keeper).unsettled", "", "a.err != nil && n < maxWriteTries", "a.err != nil && n < 0"}},
			Hints: []hint{{Package: "scheduler", Run: "TestLostAnswerOfAWriteThatFires"}},
		},
		{
			Name: "missing-owner-counts-as-told", What: "A delete that finds a copy missing beside another copy does not say that a callback may be in flight.",
			Edits: []edit{{"(*attempt).acknowledge", "", "v.unheard || v.present && v.missing", "v.unheard"}},
			Hints: []hint{{Package: "scheduler", Run: "TestAnswersNameUnreachedAndFiringCopies"}},
		},
		{
			Name: "late-acknowledgement", What: "An operation is acknowledged though the operation took longer than a second.",
			Edits: []edit{{"(*Keeper).writeAll", "", "took > timing.AnswerLimit &&", "took > timing.AnswerLimit*1000 &&"}},
			Hints: []hint{{Package: "scheduler", Run: "TestAnAnswerThatComesTooLateIsNone", Own: true}},
		},
		{
			Name: "new-says-the-present-owner", What: "A repeated create is taken for new though a coming owner is silent, which may have the timer already.",
			Edits: []edit{{"(*attempt).wouldKnow", "", "return a.someKnow(heard, owners)", "return true"}},
			Hints: []hint{{Package: "scheduler", Run: "TestARepeatedCreateWaitsForAComingOwner"}},
		},
		{
			Name: "new-says-a-shard-that-missed", What: "A repeated create is taken for new by the owner that missed the first, while the other owner is silent.",
			Edits: []edit{{"(*attempt).someKnow", "", "answers && !t.Shard.Answers.Outage.LacksWrites()", "answers"}},
			Hints: []hint{{Package: "scheduler", Run: "TestARepeatedCreateWaitsForTheOwnerThatKnows", Own: true}},
		},
		{
			Name: "create-left-out-not-noted", What: "An owner that is down, and is sent no create, counts as complete as soon as the owner answers again.",
			Edits: []edit{{"(*target).leaveOut", "", "t.Shard.Reach() == shard.Down", "false"}},
			Hints: []hint{{Package: "scheduler", Run: "TestARepeatedCreateWaitsForTheOwnerThatKnows", Own: true}},
		},
		{
			Name: "body-hash-not-stored", What: "A copy does not remember the body of a request with an idempotency key.",
			Edits: []edit{{"(*attempt).writeTo", "", "BodyHash: a.BodyHash", `BodyHash: ""`}},
			Hints: []hint{{Package: "scheduler", Run: "TestIdempotencyKeyMakesOneTimer"}},
		},
		{
			Name: "former-places-forgotten", What: "While the shards change, a timer is not looked for where the timer belonged before.",
			Edits: []edit{{"(*Registry).Places", "", "r.Store.Others(id.Key, others)", "r.Store.Others(id.Key, others)[:0]"}},
			Hints: []hint{{Package: "scheduler", Run: "TestADeleteIsToldWhereTheTimerBelongedBefore", Own: true}},
		},
	}
}

// ownerBugs are bugs about owners: copies are made at owners only.
func ownerBugs() []bug {
	return []bug{
		{
			Name: "missed-owner-not-repaired", What: "An owner that a write missed is not told of it later.",
			Edits: []edit{{"(*attempt).repair", "", "v.first == nil || v.unreached == 0", "v.first != nil || v.unreached == 0"}},
			Hints: []hint{{Package: "scheduler", Run: "TestAWriteThatMissedAnOwnerIsRepaired"}},
		},
		{
			Name: "unrepaired-write-not-swept", What: "A write that could not be repaired is forgotten.",
			Edits: []edit{{"(*outage).Missed", "", "o.noted.Store(true)", "o.noted.Store(false)"}},
			Hints: []hint{{Package: "scheduler/shard", Run: "TestAShortOutageCountsIfItsWritesAreNotRepaired"}},
		},
		{
			Name: "any-shard-counts-as-told", What: "A delete by key counts as told though only a shard that is no owner has answered.",
			Edits: []edit{{"(*attempt).owns", "", "t.Rank < factor", "t.Rank < 16"}},
			Hints: []hint{{Package: "scheduler", Run: "TestAWriteThatReachesNoOwnerIsRefused"}},
		},
		{
			Name: "create-on-sick-owners", What: "A new timer gets a key without regard to which shards answer.",
			Edits: []edit{{"(*Keeper).NewKey", "", "if k.shards.Ailing() {", "if k.shards.Ailing() && false {"}},
			Hints: []hint{{Package: "scheduler", Run: "TestACreateChoosesOwnersThatAreWell"}},
		},
		{
			Name: "lost-shard-keeps-its-place", What: "A shard that is given up goes on to be an owner.",
			Edits: []edit{{"(*Topology).lose", "", "next.Next = without(l.Active, name)", "next.Next = nil"}},
			Hints: []hint{{Package: "redisstore/topology", Run: "TestAShardThatWasGivenUpIsDrainedOrAdded"}},
		},
	}
}
