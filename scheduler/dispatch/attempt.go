package dispatch

import (
	"cmp"
	"time"

	"chronos/scheduler/store"
)

// attempt is an attempt for the log of deliveries, made so long after the pop was due; nil without a log.
func (d *Dispatcher) attempt(c *claim, late time.Duration, delivered *Delivered) *store.Attempt {
	if !d.config.Deliveries {
		return nil
	}
	return &store.Attempt{
		Key: c.Lease.Key, State: c.fenced.State, Node: d.config.Node, Due: c.fenced.Due, Started: c.fenced.Due.Add(late), Took: c.sinceDue() - late,
		OK: delivered.Verdict == VerdictDelivered, Result: cmp.Or(delivered.Reason, delivered.Answer, delivered.Verdict.String()),
		Destination: c.destination,
	}
}
