package history

// fate is the certain knowledge about a timer at the time of the dump.
type fate int

const (
	unsure fate = iota
	live        // has pops to come
	over        // was deleted, or the last pop is done
)

// fateOf is unsure if the last write had an unknown outcome or overlapped another write. fateOf is also unsure if the
// timer may be lost or overruled, and around the time of the last pop.
func (r *run) fateOf(t *timer) fate {
	var last *Operation
	for _, op := range t.ops {
		switch {
		case !op.replaces():
		case last != nil && r.done(t, last) >= op.invoked():
			return unsure
		default:
			last = op
		}
	}
	if last == nil {
		return unsure
	}
	w := t.byOp[last]
	switch {
	case last.uncertain() && (w == nil || !w.ok), r.overruled(t, last):
		return unsure
	case last.Kind != Delete:
		return r.fateOfWrite(w)
	case r.lost(t.key, last.invoked(), r.dumped(), r.told(last)):
		return unsure
	}
	return over
}

func (r *run) fateOfWrite(w *write) fate {
	pops := w.asked.Pops
	gone := w.goneAt() != never
	switch {
	case r.lost(w.timer(), w.invoked, r.dumped(), r.copies(w, r.dumped())):
		return unsure
	case !gone && w.before == nil && w.earliest(pops) > r.dumped()+r.l.Busy:
		return live
	case w.delivered(pops, r.l.AnswerMargin) && r.bound(w, pops)+w.limit < r.dumped():
		return over
	}
	return unsure
}
