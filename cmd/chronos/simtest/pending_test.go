package simtest

import "slices"

// What clients do, and what else is drawn, that is no fault. The options name it as they
// name kinds of faults.
const (
	twoWriters kind = "two-writers" // clients write one timer through two nodes at once
	givingUp   kind = "giving-up"   // clients give a write up and go on with another one
	batches    kind = "batches"     // clients create many timers at once
	losing     kind = "losing"      // a share of the seeds has shards that lose data
	polling    kind = "polling"     // a share of the seeds polls as often as production does
)

// pending are the kinds that show faults of the product or of the judge which are known
// and not yet repaired. They are drawn with -sim.pending, or where -sim.kinds names them.
//
// polling: invariant 1 of package history, where a callback that takes long holds up the
// next pop until a fault begins. The bound of that pop does not know of the callback, so
// without the slack of seldom polls it lies before the fault. Seeds 3 and 9 show it with
// -sim.poll=100ms -sim.losses=false.
//
// losing: invariant 4, where a create with an Idempotency-Key is repeated after all copies
// of its timer were lost, and so begins anew; invariant 1, not explained. Seed 9 shows both
// with -sim.losses.
func pending() []kind { return []kind{polling, losing} }

// does reports whether a kind may be drawn.
func (o options) does(k kind) bool {
	return o.pending || slices.Contains(o.kinds, string(k)) || !slices.Contains(pending(), k)
}
