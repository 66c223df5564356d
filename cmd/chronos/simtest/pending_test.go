package simtest

import "slices"

// What clients do, and what else is drawn, that is no fault. The options name it as they
// name kinds of faults.
const (
	twoWriters kind = "two-writers" // clients write one timer through two nodes at once
	givingUp   kind = "giving-up"   // clients give a write up and go on with another one
	batches    kind = "batches"     // clients create many timers at once
	losing     kind = "losing"      // a share of the seeds has shards that lose data
)

// pending are the kinds that show faults of the product which are known and not yet
// repaired. They are drawn with -sim.pending, or where -sim.kinds names them.
func pending() []kind {
	return []kind{}
}

// does reports whether a kind may be drawn.
func (o options) does(k kind) bool {
	return o.pending || slices.Contains(o.kinds, string(k)) || !slices.Contains(pending(), k)
}
