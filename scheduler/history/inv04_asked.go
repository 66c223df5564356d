package history

// onlyWhatWasTold is invariant 4: every callback is one that was asked for. Its URL and body are those of one write, which
// was not refused; its key is the timer's (and that of the id); its version is the same in all callbacks of the write, no
// other write's, and above that of every write acknowledged before; its sequence number is one of the pops; its attempt is
// counted from 1. After a callback was certainly answered 410 in time, none of the write follows outside the windows of
// faults that explain duplicates.
func onlyWhatWasTold(r *run, f *Finding) {
	for _, c := range r.unasked {
		f.violation("%s: no write asked for it", c)
	}
	for _, w := range r.writes {
		for _, c := range w.calls {
			if reason := w.unlike(c); reason != "" {
				f.violation("%s: %s", c, reason)
			}
		}
		r.judgeGone(f, w)
	}
	for _, t := range r.timers {
		judgeVersions(f, t)
	}
}

// unlike says in what a callback differs from what was asked; empty if in nothing.
func (w *write) unlike(c *Callback) string {
	key := w.key
	if key == "" {
		key = w.calls[0].Key
	}
	switch {
	case w.refused:
		return "its write was refused"
	case c.URL != w.asked.URL:
		return "its body belongs to " + w.asked.URL
	case c.BodyHash != w.asked.BodyHash:
		return "its body is not what was asked"
	case !c.ofKey(key):
		return "it is about timer " + c.ID + ", key " + c.Key + ", instead of " + key
	case c.Version != w.version() || c.Version == "":
		return "before, the version was " + w.version()
	case c.Seq < 1 || c.Seq > w.asked.Pops:
		return "there is no such pop"
	case c.Attempt < 1:
		return "attempts count from 1"
	}
	return ""
}

func (r *run) judgeGone(f *Finding, w *write) {
	for i, c := range w.calls {
		if !c.gone(r.surely()) {
			continue
		}
		for _, next := range w.calls[i+1:] {
			if next.arrived() > c.over(r.surely()) && !r.inWindow(next.arrived(), (*Fault).explainsDuplicates) {
				f.violation("%s: the timer was ended by a 410 at %s", next, c.over(r.surely()))
			}
		}
		return
	}
}

// judgeVersions holds the versions of a timer's writes to the order in which these were certainly done.
func judgeVersions(f *Finding, t *timer) {
	for _, a := range t.writes {
		for _, b := range t.writes {
			if a == b || a.version() == "" || b.version() == "" || a.returned >= b.invoked {
				continue
			}
			if a.version() >= b.version() {
				f.violation("timer %s: version %s of %s is not below %s of %s, which was written later",
					t.key, a.version(), a.asked.URL, b.version(), b.asked.URL)
			}
		}
	}
}
