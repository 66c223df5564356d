package history

import (
	"cmp"
	"iter"
	"slices"
	"time"
)

const (
	windowBefore = 2 * time.Second // from the begin of a window to its fault
	windowAfter  = 3 * time.Second // from the end of the hold time and all skews to the end of the window
)

// window is the time in which effects of a fault may show: [start − 2 s, end + hold + rf × skew + 3 s].
type window struct {
	from, to time.Duration
	reach    time.Duration // the latest end of this window and all windows before
	healed   time.Duration // a shard counts as faulty from the fault's start until healed
	*Fault
}

// level is a time in which the same shards are faulty.
type level struct {
	from, to time.Duration
	shards   []string
	lost     bool          // a shard lost data
	ended    time.Duration // when the last fault of the shards was over
}

func (r *run) indexFaults() {
	header := &r.h.Header
	after := header.hold() + time.Duration(header.RF)*ms(header.SkewMaxMs) + windowAfter
	for i := range r.h.Faults {
		f := &r.h.Faults[i]
		if f.hasNoWindow() {
			continue
		}
		w := window{from: f.started() - windowBefore, to: later(f.ended(r.end), after), Fault: f}
		if w.healed = w.to; f.RepairedNs != 0 {
			w.healed = max(f.ended(r.end), r.quietUntil(f))
		}
		r.windows = append(r.windows, w)
	}
	slices.SortStableFunc(r.windows, func(a, b window) int { return cmp.Compare(a.from, b.from) })
	reach := time.Duration(0)
	for i := range r.windows {
		reach = max(reach, r.windows[i].to)
		r.windows[i].reach = reach
	}
	r.indexLevels()
}

// quietUntil is the instant until which nothing may fire from the shard of a fault, after a restart, a loss of data, or
// a clock that was put back (Limits.Quiet). quietUntil is 0 after other faults, or if the fault did not end.
func (r *run) quietUntil(f *Fault) time.Duration {
	if f.Class != ShardLost && !f.Restarted && !f.putBack() || f.EndNs == -1 {
		return 0
	}
	return later(time.Duration(f.EndNs), r.l.Quiet)
}

// indexLevels cuts the run at every instant at which a shard becomes faulty or is healed. Without a recorded repair,
// a shard is healed when the fault's window ends.
func (r *run) indexLevels() {
	var cuts []time.Duration
	for _, w := range r.windows {
		if w.ofShard() {
			cuts = append(cuts, w.started(), w.healed)
		}
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	for i := range len(cuts) - 1 {
		l := level{from: cuts[i], to: cuts[i+1]}
		for w := range r.during(l.from, l.to) {
			if w.ofShard() && w.started() <= l.from && w.healed >= l.to {
				if !slices.Contains(l.shards, w.Shard) {
					l.shards = append(l.shards, w.Shard)
				}
				l.lost = l.lost || w.Class == ShardLost
				l.ended = max(l.ended, w.ended(r.end))
			}
		}
		r.levels = append(r.levels, l)
	}
}

// during yields the windows that overlap [from, to].
func (r *run) during(from, to time.Duration) iter.Seq[window] {
	return func(yield func(window) bool) {
		first, _ := slices.BinarySearchFunc(r.windows, from, func(w window, t time.Duration) int { return cmp.Compare(w.reach, t) })
		for _, w := range r.windows[first:] {
			if w.from > to {
				return
			}
			if w.to >= from && !yield(w) {
				return
			}
		}
	}
}

// inWindow tells whether a fault with the property may show at the instant.
func (r *run) inWindow(at time.Duration, property func(*Fault) bool) bool {
	return r.explained(at, at, property)
}

// explained tells whether a fault with the property may show within [from, to].
func (r *run) explained(from, to time.Duration, property func(*Fault) bool) bool {
	for w := range r.during(from, to) {
		if property(w.Fault) {
			return true
		}
	}
	return false
}

// of is the number of faulty owners of a timer, or of all faulty shards if the owners are unknown.
func (l *level) of(owners []string) (n int) {
	for _, shard := range l.shards {
		if owners == nil || slices.Contains(owners, shard) {
			n++
		}
	}
	return n
}

// faulty tells whether at least the given number of owners were faulty at once within [from, to].
func (r *run) faulty(key string, from, to time.Duration, shards int) bool {
	owners := r.owners(key, from, to)
	for l := range overlapping(r.levels, from, to) {
		if l.of(owners) >= shards {
			return true
		}
	}
	return false
}

// lost tells whether the given number of copies may have been lost within [from, to]: as many owners were faulty at
// once, and at least one shard lost data.
func (r *run) lost(key string, from, to time.Duration, copies int) bool {
	owners := r.owners(key, from, to)
	for l := range overlapping(r.levels, from, to) {
		if l.lost && l.of(owners) >= copies {
			return true
		}
	}
	return false
}

// overlapping yields the levels that overlap [from, to]. The levels are in the order of time.
func overlapping(levels []level, from, to time.Duration) iter.Seq[level] {
	return func(yield func(level) bool) {
		first, _ := slices.BinarySearchFunc(levels, from, func(l level, t time.Duration) int { return cmp.Compare(l.to, t) })
		for _, l := range levels[first:] {
			if l.from > to || !yield(l) {
				return
			}
		}
	}
}

// dark are the times in which at least the given number of owners were faulty at once.
func (r *run) dark(key string, copies int) (dark []level) {
	owners := r.owners(key, 0, r.end)
	for _, l := range r.levels {
		if l.of(owners) < copies {
			continue
		}
		n := len(dark)
		if n == 0 || dark[n-1].to < l.from {
			dark = append(dark, l)
			continue
		}
		dark[n-1].to, dark[n-1].ended = l.to, max(dark[n-1].ended, l.ended)
	}
	return dark
}

// outages are the dark times. Two dark times are one outage if the second begins within Limits.Recover of the end of
// the faults of the first.
func (r *run) outages(key string, copies int) (outages []level) {
	for _, l := range r.dark(key, copies) {
		n := len(outages)
		if n == 0 || outages[n-1].ended+r.l.Recover < l.from {
			outages = append(outages, l)
			continue
		}
		outages[n-1].to, outages[n-1].ended = l.to, max(outages[n-1].ended, l.ended)
	}
	return outages
}

// copies is the smallest number of copies of a write from its invocation until an instant: as many as the answer
// names, at most as many as shards took timers.
func (r *run) copies(w *write, until time.Duration) int {
	return r.fewest(w.copies, w.invoked, until)
}

// fewest is the least number of copies within [from, until], out of the given number: at most as many as shards took
// timers.
func (r *run) fewest(copies int, from, until time.Duration) int {
	for i := range r.h.Faults {
		f := &r.h.Faults[i]
		if f.Class == TopologyChange && f.Active > 0 && f.started() <= until && f.ended(r.end) >= from {
			copies = min(copies, f.Active)
		}
	}
	return copies
}

// steps is the sum of the jumps of the clocks of the write's owners, from the invocation until to. A write that did
// not reach all owners may have copies on any shard.
func (r *run) steps(w *write, to time.Duration) (sum time.Duration) {
	for f := range r.during(w.invoked, to) {
		if f.Class == ClockStep && (!w.ok || w.unreached > 0 || r.owns(f.Shard, w.timer(), w.invoked, to)) {
			sum += ms(max(f.StepMs, -f.StepMs))
		}
	}
	return sum
}
