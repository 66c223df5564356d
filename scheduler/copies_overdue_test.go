package scheduler_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"chronos/scheduler/dispatch"
	"chronos/scheduler/store"
	"chronos/scheduler/storetest"
)

// slowly makes callbacks last for d.
func slowly(d time.Duration) func(attempt) (time.Duration, dispatch.Delivered) {
	return func(attempt) (time.Duration, dispatch.Delivered) {
		return d, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
	}
}

// TestCopiesOfAnOverduePopStayApart: a next pop that is already overdue when the pop before is
// settled is looked at from then on. The second copy is looked at a skew later, whether the copy
// was told or restored.
func TestCopiesOfAnOverduePopStayApart(t *testing.T) {
	for _, wiped := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m, r := storetest.NewModel("x", "y"), &recorder{respond: slowly(1900 * time.Millisecond)}
			n := startNode(t, m.Open("a"), "a", r)
			pass(50 * time.Millisecond)
			receipt := create(t, n, recurring(time.Second, 10))
			ranked := m.Open("a").Rank(receipt.ID.Key)
			pass(2 * time.Second)
			if wiped {
				m.Wipe(ranked[1])
			}
			for !slices.ContainsFunc(r.seen(), func(a attempt) bool { return a.Seq == 2 }) {
				pass(time.Millisecond)
			}
			settled := r.seen()[0].at.Add(1900 * time.Millisecond)
			backup := m.Open("b").Read(t.Context(), []store.Spot{{Shard: ranked[1], Key: receipt.ID.Key}})[0]
			skew := store.DefaultSkew().Of(time.Second, 2)
			if backup.Err != nil || backup.Record.State.Seq != 2 || backup.Look.Before(settled.Add(skew).Truncate(time.Millisecond)) {
				t.Errorf("wiped %v: the backup is at pop %d (%v) and looked at %v after the settlement, want pop 2, %v",
					wiped, backup.Record.State.Seq, backup.Err, backup.Look.Sub(settled), skew)
			}
		})
	}
}
