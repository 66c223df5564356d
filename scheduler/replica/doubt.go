package replica

import (
	"context"
	"maps"
	"slices"
	"time"

	"chronos/scheduler/timing"
)

// maxDoubts is how many timers get a second look. Further timers are swept at once.
const maxDoubts = 1000

// doubt looks at some timers in the hourly pass, which nothing has asked for, and notes uneven
// timers: a write may be under way. The results are as for sweepKeys.
func (sw *sweep) doubt(ctx context.Context, keys []string) (clean bool, bytes int) {
	if len(sw.doubts) >= maxDoubts {
		return sw.sweepKeys(ctx, keys)
	}
	all, clean, bytes := sw.read(ctx, keys)
	for _, s := range all {
		if s.uneven() {
			sw.doubts[s.Record.ID.Key] = s.Record.State
			sw.doubted = time.Now()
		}
	}
	return clean, bytes
}

// lookAgain repairs timers that are still uneven, in the same state. Neither a write nor a fault
// explains the difference: the cause is a bug, and somebody should know.
func (sw *sweep) lookAgain(ctx context.Context) {
	if len(sw.doubts) == 0 || time.Since(sw.doubted) < timing.DoubtFor {
		return
	}
	quiet := !sw.troubled()
	for page := range slices.Chunk(slices.Sorted(maps.Keys(sw.doubts)), firstPage) {
		bounded, cancel := context.WithTimeout(ctx, timing.CopyPatience)
		all, _, _ := sw.read(bounded, page)
		found := 0
		for _, s := range all {
			if quiet && s.uneven() && s.Record.State == sw.doubts[s.Record.ID.Key] {
				found++
				sw.k.unexpected.Log(sw.shard.Log, unexpectedLine, "timer", s.Record.ID.String(), "behind", len(s.behind()), "over", s.over.Version != 0, "home", s.Home)
			}
		}
		sw.k.swept.WithLabelValues(sw.shard.Name, "unexpected").Add(float64(found))
		sw.bringHome(bounded, all)
		sw.settleDown(bounded, all)
		cancel()
	}
	clear(sw.doubts)
}

// troubled reports whether some shard may have missed something. The next sweep is then expected to
// find differences.
func (sw *sweep) troubled() bool {
	for _, sh := range sw.k.shards.All() {
		if sh.Away() || sh.Answers.Outage.Pending() || sh.GapFor(0) > 0 {
			return true
		}
	}
	return false
}

// unexpectedLine is logged where copies are not as writes and repairs should have left the copies.
const unexpectedLine = "copies of a timer differ though nothing is under way, and are mended; please report this"

// uneven reports whether the sweep would write something for the copy.
func (s *stray) uneven() bool {
	switch {
	case s.over.Version != 0:
		return true
	case s.busy, s.stays, s.Record.State.Ended && s.Home:
		return false
	}
	return len(s.behind()) > 0 || !s.Home || s.Record.Rank != s.Rank && !s.Record.State.Ended
}
