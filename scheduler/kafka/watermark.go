package kafka

import (
	"cmp"
	"sort"
	"sync"
)

// watermark is how far a partition may be committed: as far as all polled records are done. A commit of
// a record commits all records before, but records are done in any order. A watermark lasts from a
// partition's assignment to its revocation. Many goroutines may use a watermark.
type watermark struct {
	mu      sync.Mutex
	records []tracked // in the order of polling, offsets rising; the records before head are over
	head    int
	waiting int // records that are not done

	last   int64 // offset that was polled last
	polls  bool  // last is set
	passed tracked
	news   bool // passed is higher than the last result of next
	ended  bool
}

type tracked struct {
	offset int64
	epoch  int32 // of the partition's leader
	done   bool
}

// polled tells of a record that has been read and is not done. Offsets rise, maybe with gaps. Otherwise
// the log was cut or made again, and records under way no longer stand at their offsets. polled then
// revokes the watermark and returns false. The caller needs a new watermark to commit anything.
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
	if w.head > len(w.records)/2 { // at most as many records move as were passed since
		w.records = w.records[:copy(w.records, w.records[w.head:])]
		w.head = 0
	}
	w.records = append(w.records, tracked{offset: offset, epoch: epoch})
	w.waiting++
	return true
}

// done tells that the store, the output topic or the dead-letter topic has acknowledged the record.
// Records that don't wait are ignored.
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

// find is where the record with this offset is. Without gaps the distance from the head is the
// difference of the offsets, with gaps less; w.mu is held.
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

// next returns the highest offset up to which all records are done, and the epoch of its leader:
// offset+1 may be committed. ok is false without an offset, or if the offset is no higher than last
// time.
func (w *watermark) next() (offset int64, epoch int32, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.news {
		return 0, 0, false
	}
	w.news = false
	return w.passed.offset, w.passed.epoch, true
}

// revoke has next return nothing from now on. The partition may belong to another member, who reads
// again all that was not committed.
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

// open is the first offset that is not done, and how many records are kept from the offset on.
func (w *watermark) open() (first int64, kept int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if kept = len(w.records) - w.head; kept > 0 {
		return w.records[w.head].offset, kept
	}
	return w.last + 1, 0
}

// pending is how many records are not done; 0 after a revocation.
func (w *watermark) pending() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waiting
}
