package model

import "fmt"

// hastenings are runs with a FIRE or a DELAY alone, and with another write.
func hastenings() []scenario {
	var all []scenario
	two := with(twoPops(), func(sc *Scenario) { sc.Sweeping, sc.LinkHolds, sc.OpBy = true, true, 5 })
	for _, k := range kinds {
		for _, ops := range [][2]Op{
			{Fire, NoOp}, {Delay, NoOp},
			{Fire, Fire}, {Fire, Put}, {Put, Fire}, {Fire, Delete}, {Fire, Patch}, {Patch, Fire}, {Fire, Delay}, {Delay, Fire},
			{Delay, Delay}, {Delay, Put}, {Put, Delay}, {Delay, Delete}, {Delay, Patch}, {Patch, Delay},
		} {
			s := scenario{name: fmt.Sprintf("%s and %s, %s", ops[0], ops[1], k.name), sc: withOp(two, ops[0])}
			if ops[1] != NoOp {
				s.sc = twice(OneShot(2), ops[0], ops[1])
				s.full = k.kind != 0
			}
			if k.kind != 0 {
				s.sc = withFaults(s.sc, k.kind, 1)
				s.sc.Bound += s.sc.Skew // a lease must end first, and a backup yields meanwhile
			}
			if k.kind == Gap {
				s.sc.Bound = 6
			}
			all = append(all, s)
		}
	}
	for _, op := range []Op{Fire, Delay} {
		failing := with(withOp(two, op), func(sc *Scenario) { sc.Failures = 1 })
		letters := with(withOp(OneShot(2), op), func(sc *Scenario) { sc.Attempts, sc.Failures = 2, 2 })
		all = append(all,
			scenario{name: fmt.Sprintf("%s, a callback fails", op), sc: failing},
			scenario{name: fmt.Sprintf("%s, dead letter", op), sc: letters},
			scenario{name: fmt.Sprintf("%s, three copies, any fault", op), sc: with(withFaults(withOp(OneShot(3), op), AnyFault, 1), func(sc *Scenario) { sc.Bound += 2 }), full: true},
			scenario{name: fmt.Sprintf("%s, a shard is drained", op), sc: fired(op, Drains, 2)},
			scenario{name: fmt.Sprintf("%s, one of three shards is drained", op), sc: fired(op, Drains, 3)},
			scenario{name: fmt.Sprintf("%s, a shard comes for rank 0", op), sc: fired(op, Joins, 2)})
	}
	return append(all, scenario{name: "FIRE, a retry, a shard comes for rank 0", sc: firedRetry(), full: true})
}

// fired is a change of the shards during which a client hastens or delays the timer.
func fired(op Op, change Change, factor int8) Scenario {
	return with(withOp(Changing(change, factor), op), func(sc *Scenario) { sc.OpBy, sc.Bound = 6, 4 })
}

// firedRetry is a change of the shards during which a client hastens a retry.
func firedRetry() Scenario {
	return with(fired(Fire, Joins, 2), func(sc *Scenario) {
		sc.OpBy, sc.ChangeBy, sc.Bound, sc.Failures, sc.Retry, sc.Interval, sc.End = 4, 2, 9, 1, 4, 4, 14
	})
}

// ofHastenings are rows for FIRE and DELAY.
func ofHastenings() []without {
	return []without{
		{"HastenExact", withOp(twoPops(), Fire), Early},
		{"BestDecides", twice(OneShot(2), Fire, Patch), Late},
		{"HastenSpreads", fired(Fire, Drains, 2), Late},
		{"HastenedEnds", fired(Fire, Joins, 2), Needless},
		{"RetriedEnds", firedRetry(), Needless},
		{"DelayExact", withOp(OneShot(2), Delay), Needless},
	}
}
