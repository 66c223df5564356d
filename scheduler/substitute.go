package scheduler

import (
	"slices"
	"time"
)

// holds reports whether a substitute has to wait until a home names the substitute. A
// newer write that comes between finds the name, and tells the substitute, too. A
// substitute that was made first would stay as an older version, and no other copy would
// know of that version. A plain create needs no name first: nobody else knows its key.
func (a *attempt) holds(t *target) bool { return t.substitute && !t.tried && !a.fresh }

// planSubstitutes appends the substitutes that a home names. No substitute is made when no
// home answered, or when a home has something newer by now.
func (a *attempt) planSubstitutes(writes []Write) []Write {
	waiting := func(t target) bool { return t.progress == toTell && a.holds(&t) }
	if !slices.ContainsFunc(a.targets, waiting) {
		return writes
	}
	named := slices.ContainsFunc(a.targets, func(t target) bool { return t.home && t.stored() && t.knowsAll(a.away) })
	if !named || a.passed() {
		a.targets = slices.DeleteFunc(a.targets, waiting)
		return writes
	}
	for i := range a.targets {
		if t := &a.targets[i]; waiting(*t) {
			writes = a.send(t, writes)
		}
	}
	return writes
}

// passed reports whether a copy that had the write has something newer since.
func (a *attempt) passed() bool {
	return slices.ContainsFunc(a.targets, func(t target) bool { return t.passed })
}

// substituted reports whether a substitute stands in for the home of a rank.
func (a *attempt) substituted(rank int) bool {
	return slices.ContainsFunc(a.targets, func(t target) bool { return t.substitute && t.rank == rank })
}

// provide chooses a substitute for each home that could not be told. Of other places,
// and of a delete, the names of the copies that could not be told are kept instead. Where
// an earlier version may be, one home must have been told first: an earlier version that
// nobody has told goes on without knowing of the substitute. A repeated create has
// nothing to store.
func (a *attempt) provide() {
	if a.settled() {
		return
	}
	if a.timer != nil && !a.fresh && !a.toldHome() {
		return
	}
	for i := range a.targets {
		t := &a.targets[i]
		switch {
		case t.progress != untold || t.replaced:
		case a.timer == nil || t.stray:
			t.replaced = true
			a.away = append(a.away, Away{Shard: t.shard.name, Rank: t.rank})
		default:
			t.replaced = true
			a.substitute(t.rank)
		}
	}
}

func (a *attempt) toldHome() bool {
	return slices.ContainsFunc(a.targets, func(t target) bool { return t.home && t.progress == told })
}

// substitute chooses the next shard in rank order, without a copy and not silent, for the
// copy of a rank.
func (a *attempt) substitute(rank int) {
	if a.ranked == nil {
		a.ranked = a.s.store.Rank(a.id.Key)
	}
	for _, name := range a.ranked[min(a.id.RF, len(a.ranked)):] {
		sh := a.s.shard(name)
		i := slices.IndexFunc(a.targets, func(t target) bool { return t.shard == sh })
		if sh == nil || sh.away() || i >= 0 && !a.targets[i].stray { // nil if it was removed meanwhile
			continue
		}
		t := target{place: place{shard: sh, rank: rank}, substitute: true}
		if i >= 0 {
			a.targets[i] = t
		} else {
			a.targets = append(a.targets, t)
		}
		a.away = append(a.away, Away{Shard: name, Rank: rank})
		return
	}
}

// warnLimit is how long after its begin an attempt still waits for one more round.
const warnLimit = answerLimit - roundPatience - 50*time.Millisecond

// planWarnings appends the write once more for homes that did not answer.
func (a *attempt) planWarnings(writes []Write) []Write {
	if a.passed() {
		return writes
	}
	for i := range a.targets {
		if t := &a.targets[i]; a.warns(t) {
			t.warned = true
			writes = a.send(t, writes)
		}
	}
	return writes
}

// warns reports whether a home that did not answer is told once more, with the name of its
// substitute. The home may have the write, with the answer lost, or may get the write
// later: without the name its copy would fire beside the substitute. The two writes may
// be executed in either order.
func (a *attempt) warns(t *target) bool {
	return a.timer != nil && len(a.away) > 0 && t.progress == untold && t.home && t.tried && !t.warned &&
		!t.shard.away() && a.s.config.SinceBoot()-a.begun <= warnLimit
}
