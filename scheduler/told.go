package scheduler

// wasThere reports whether a delete has found a copy of the timer, live or ended. A
// tombstone that an earlier delete made of nothing is no copy.
func (t *target) wasThere() bool {
	return !t.answer.New && t.answer.Status != WriteNone && t.answer.State.Seq > 0
}

// tells reports whether the target's answer counts as told: a copy belongs on the shard,
// or was found there. A delete that does not know the replication factor asks all shards.
// A copy then belongs on the first shard, and on as many more as a copy that was found
// says.
func (a *attempt) tells(t *target, factor int) bool {
	switch {
	case a.fresh:
		return true
	case a.timer != nil:
		return t.home || !t.answer.New && t.answer.Status != WriteNone
	case a.id.RF != 0:
		return t.home || t.wasThere()
	}
	return t.home && t.rank < factor || t.wasThere()
}

// factor is the replication factor of the timer, as far as the answers say it.
func (a *attempt) factor() int {
	factor := max(a.id.RF, 1)
	for i := range a.targets {
		if t := &a.targets[i]; t.progress == told && t.wasThere() {
			factor = max(factor, t.answer.RF)
		}
	}
	return factor
}
