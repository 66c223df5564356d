package history

// fate is what is certain about a timer at the time of the dump.
type fate int

const (
	unsure fate = iota
	live        // it has pops to come
	over        // it was deleted or its last pop is done
)

// fateOf is unsure if an operation had an unknown outcome or overlapped the last one, if the timer may have been lost or overruled, and
// while its last pop is about to be called.
func (r *run) fateOf(t *timer) fate {
	var last *Operation
	for _, op := range t.ops {
		switch {
		case !op.writes():
		case t.returned(op) == never, last != nil && t.returned(last) >= op.invoked():
			return unsure
		default:
			last = op
		}
	}
	if last == nil {
		return unsure
	}
	switch {
	case r.overruled(t, last):
		return unsure
	case last.Kind != Delete:
		return r.fateOfWrite(t.byOp[last])
	case r.lost(last.invoked(), r.dumped(), r.told(last)):
		return unsure
	}
	return over
}

func (r *run) fateOfWrite(w *write) fate {
	limit, pops := r.h.Header.limit(), w.asked.Pops
	gone := w.goneAt(limit) != never
	switch {
	case r.lost(w.invoked, r.dumped(), r.copies(w, r.dumped())):
		return unsure
	case !gone && w.earliest(pops) > r.dumped()+r.l.Busy:
		return live
	case w.delivered(pops, r.surely()) && r.bound(w, pops)+limit < r.dumped():
		return over
	}
	return unsure
}
