package ui

import (
	"strconv"
	"time"

	"chronos/scheduler/store"
)

// shownPops is how many pops to come a page shows.
const shownPops = 10

// pop is a pop to come.
type pop struct {
	Sequence string
	At       *instant
	Note     string
}

// popsOf are the next pops of a timer, and how many more come.
func popsOf(found *store.ReadResult, now time.Time) (pops []pop, more int) {
	record := &found.Record
	t := &record.Timer
	due := found.PopDue()
	left := t.Pops() - record.State.Seq + 1
	for i := range min(left, shownPops) {
		one := pop{Sequence: strconv.Itoa(record.State.Seq + i), At: at(due.Add(time.Duration(i)*t.Interval), now)}
		if i == 0 && record.State.Attempt > 0 && !found.Leased && !found.Due.Equal(due) {
			retry := at(found.Due, now)
			one.Note = "attempt " + strconv.Itoa(record.State.Attempt+1) + " " + retry.Relative
		}
		pops = append(pops, one)
	}
	return pops, max(left-shownPops, 0)
}
