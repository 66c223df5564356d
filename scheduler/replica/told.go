package replica

import (
	"slices"

	"chronos/scheduler/store"
)

// wasThere reports whether a delete has found a copy of the timer, live or ended. A tombstone that
// an earlier delete made where no copy was does not count.
func (t *target) wasThere() bool {
	return !t.answer.New && t.answer.Status != store.WriteNone && t.answer.State.Seq > 0
}

// owns reports whether a copy belongs on the target. A delete that does not know the replication
// factor asks all shards. A copy then belongs on the first shard, and on as many more shards as a
// copy that was found says. Only answers of owners count: a write that told no owner is not
// acknowledged.
func (a *attempt) owns(t *target, factor int) bool {
	return t.Home && (a.Fresh || a.Timer != nil || a.ID.RF != 0 || t.Rank < factor)
}

// found reports whether some shard has said how many copies the timer has. Until then a delete by
// bare key counts a silent shard as unreached where a timer of the default factor has a copy. The
// copy may be the only copy, since a PUT may have missed the first owner.
func (a *attempt) found() bool {
	return a.ID.RF != 0 || a.Timer != nil || slices.ContainsFunc(a.targets, func(t target) bool { return t.progress == told && t.wasThere() })
}

// factor is the replication factor of the timer, as far as the answers say.
func (a *attempt) factor() int {
	factor := max(a.ID.RF, 1)
	for t := range each(a.targets) {
		if t.progress == told && t.wasThere() {
			factor = max(factor, t.answer.RF)
		}
	}
	return factor
}
