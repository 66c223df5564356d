package model

// OwnersOnly has the scenario follow the protocol without substitutes: a copy is only ever
// made at an owner. The rules that only substitutes need are off, and so are those that
// LossSaid, MissedNoted and YoungEnds stand in for.
func OwnersOnly(sc Scenario) Scenario {
	r, v := &sc.Rules, &sc.Variants
	r.Look, r.RenewThenBring, r.KnowAway, r.NameFirst, r.AwayFirst = false, false, false, false, false
	r.MissingUntold = false // LossSaid
	r.TellOwed = false      // MissedNoted
	r.DoneOnNothing = false // YoungEnds
	v.AwayAsBackup, v.AwayUpdated, v.AwayLater = true, true, 1
	v.NoSubstitutes, v.NoNote, v.OntoLive, v.EndsOntoLive, v.DoneOntoLive = true, true, true, true, true
	v.OwnersTold, v.AskTwo, v.Yield = true, true, true
	v.Repair, v.MissedNoted, v.EndsLast = true, true, true
	v.LossSaid, v.LossQuiet, v.YoungEnds = true, true, true
	v.LeaseAsked, v.SweepDue, v.OutRemoved, v.OutTold = true, true, true, true
	return sc
}
