package kafka

import (
	"cmp"
	"sort"
	"sync"
)

// watermark is how far a partition may be committed: to where everything that was
// polled is done. Committing one record commits all before it, and they are done in
// any order. It lasts from a partition's assignment to its revocation; many
// goroutines may use it.
type watermark struct {
	mu      sync.Mutex
	records []tracked // polled in this order, offsets rising; those before head are done with
	head    int
	waiting int // records that are not done

	last   int64 // offset that was polled last
	polls  bool  // there is a last
	passed tracked
	news   bool // passed is higher than what next returned before
	ended  bool
}

type tracked struct {
	offset int64
	epoch  int32 // of the partition's leader
	done   bool
}

// polled tells of a record that has been read and is not done. Offsets rise, maybe
// with gaps. One that doesn't shows that the log was cut or made anew, so that what
// is under way no longer stands at the offset it is known by: that revokes the
// watermark, and the caller, who is told false, needs a new one to commit anything.
func (w *watermark) polled(offset int64, epoch int32) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.polls && offset <= w.last {
		w.end()
	}
	if w.ended {
		return false
	}
	w.polls, w.last = true, offset
	if w.head > len(w.records)/2 { // at most as many are moved as were passed since
		w.records = w.records[:copy(w.records, w.records[w.head:])]
		w.head = 0
	}
	w.records = append(w.records, tracked{offset: offset, epoch: epoch})
	w.waiting++
	return true
}

// done tells that the store, the output topic or the dead-letter topic has
// acknowledged the record. What isn't waiting is ignored.
func (w *watermark) done(offset int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i, found := w.find(offset)
	if w.ended || !found || w.records[i].done {
		return
	}
	w.records[i].done = true
	w.waiting--
	for ; w.head < len(w.records) && w.records[w.head].done; w.head++ {
		w.passed, w.news = w.records[w.head], true
	}
}

// find is where the record with this offset is. Without gaps it is as far from the
// head as its offset is, with gaps nearer; w.mu is held.
func (w *watermark) find(offset int64) (int, bool) {
	open := w.records[w.head:]
	if len(open) == 0 || offset < open[0].offset || offset > w.last {
		return 0, false
	}
	most := int(min(uint64(offset)-uint64(open[0].offset), uint64(len(open)-1)))
	if open[most].offset == offset {
		return w.head + most, true
	}
	i, found := sort.Find(most, func(i int) int { return cmp.Compare(offset, open[i].offset) })
	return w.head + i, found
}

// next returns the highest offset up to which all is done, and the leader's epoch
// that goes with it: offset+1 may be committed. ok is false if it is none or no
// higher than last time.
func (w *watermark) next() (offset int64, epoch int32, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.news {
		return 0, 0, false
	}
	w.news = false
	return w.passed.offset, w.passed.epoch, true
}

// revoke has next return nothing from now on, whatever is done yet: the partition
// may be somebody else's, who reads again what was not committed.
func (w *watermark) revoke() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end()
}

// end revokes; w.mu is held.
func (w *watermark) end() {
	w.ended, w.news = true, false
	w.records, w.head, w.waiting = nil, 0, 0
}

// open is the first offset that is not done, and how many are kept from there on.
func (w *watermark) open() (first int64, kept int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if kept = len(w.records) - w.head; kept > 0 {
		return w.records[w.head].offset, kept
	}
	return w.last + 1, 0
}

// pending is how many records are not done; none once it is revoked.
func (w *watermark) pending() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waiting
}
