package storetest

import (
	"fmt"
	"slices"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// outcomeCases are rule "tell every copy the outcome": how a copy takes the outcome of another copy's callback, and
// how a missing copy comes back.
func outcomeCases() map[string]func(*rig) {
	return map[string]func(*rig){
		"next told goes on on the copy's own grid": checkNextTold,
		"next told may be several pops ahead": func(r *rig) {
			start := r.backup("k", 5, 1, 0).Record.Start
			r.toldStored(outcome(store.WriteNext, "k", 5, 7, 0))
			if got, want := r.live("k").Look, start.Add(7*far+skewed); !got.Equal(want) {
				r.Errorf("looked at %v after its start, want %v", got.Sub(start), want.Sub(start))
			}
		},
		"next told after a retry is due on the grid": func(r *rig) {
			start := r.backup("k", 5, 1, 0).Record.Start
			r.toldStored(outcome(store.WriteAgain, "k", 5, 1, 1))
			r.toldStored(outcome(store.WriteNext, "k", 5, 2, 0))
			if got, want := r.live("k").Look, start.Add(2*far+skewed); !got.Equal(want) {
				r.Errorf("looked at %v after its start, want %v", got.Sub(start), want.Sub(start))
			}
		},
		"again told waits for the retry":               checkAgainTold,
		"next told changes nothing but its own state":  func(r *rig) { r.checkToldTable(store.WriteNext, 2, 0) },
		"again told changes nothing but its own state": func(r *rig) { r.checkToldTable(store.WriteAgain, 1, 1) },
		"next told ends a lease":                       func(r *rig) { r.checkToldEndsLease(outcome(store.WriteNext, "k", 5, 2, 0)) },
		"again told ends a lease":                      func(r *rig) { r.checkToldEndsLease(outcome(store.WriteAgain, "k", 5, 1, 2)) },
		"drop told ends a lease":                       func(r *rig) { r.checkToldEndsLease(outcome(store.WriteDrop, "k", 5, 2, 0)) },
		"done told ends a lease":                       func(r *rig) { r.checkToldEndsLease(outcome(store.WriteDone, "k", 5, 2, 0)) },
		"what is told keeps the mark":                  checkToldUnderMark,
		"a failure is of the time that it says, or of now": func(r *rig) {
			r.checkFailureTold(outcome(store.WriteAgain, "again", 5, 1, 1))
			r.checkFailureTold(outcome(store.WriteNext, "next", 5, 2, 0))
			r.checkFailureTold(outcome(store.WriteLive, "live", 5, 2, 0))
			r.checkFailureTold(outcome(store.WriteLive, "live-again", 5, 1, 1))
		},
		"a failure of what is brought back is of the time that it says, or of now": func(r *rig) {
			r.checkFailureBrought(outcome(store.WriteLive, "live", 5, 2, 0))
			r.checkFailureBrought(outcome(store.WriteLive, "live-again", 5, 1, 1))
		},
		"drop leaves what is newer":              checkDrop,
		"live with an attempt waits for a retry": checkLiveAttempt,
		"done and gone say if nothing was there": func(r *rig) {
			for _, kind := range []store.WriteKind{store.WriteDone, store.WriteGone} {
				w := outcome(kind, string(kind), 5, 1, 1)
				for i, want := range []store.WriteStatus{store.WriteStored, store.WriteSame} {
					if got := r.told(w); got.Status != want || got.New != (i == 0) || !got.State.Ended {
						r.Errorf("%s, time %d: %+v, want status %d, a tombstone, new the first time", kind, i+1, got, want)
					}
				}
			}
		},
		"onto is live, onto a live copy": func(r *rig) {
			w := outcome(store.WriteLive, "k", 5, 2, 0)
			w.Kind = store.WriteOnto
			r.unless(w, store.WriteNone)
			r.told(outcome(store.WriteGone, "ended", 4, 1, 1))
			w.Key = "ended"
			if got := r.told(w); got.Status != store.WriteNone || got.State.Version != version(4) || !got.State.Ended {
				r.Errorf("onto an end: %+v, want that end, and that nothing was done", got)
			}
			if n := r.pending(); n != 1 {
				r.Errorf("%d are there, want the end", n)
			}
			for i, n := range []int{6, 4} {
				w.Key = fmt.Sprint("k", n)
				r.there(w.Key, timer.State{Version: version(n), Seq: 1})
				r.unless(w, []store.WriteStatus{store.WriteNewer, store.WriteStored}[i])
			}
			r.unless(w, store.WriteSame)
			w.Timer = oneShot(far)
			r.unless(w, store.WriteConflict)
		},
		"merge and tell do the same": checkMergeAsTell,
		"rank is the same for all nodes": func(r *rig) {
			for _, key := range keys(50) {
				ranked := r.a.Rank(key)
				if again := r.b.Rank(key); !slices.Equal(ranked, again) {
					r.Errorf("%s is ranked %v and %v", key, ranked, again)
				}
				all := slices.Sorted(slices.Values(ranked))
				if want := slices.Sorted(slices.Values(r.a.Shards())); !slices.Equal(all, want) {
					r.Errorf("%s is ranked %v, want each of %v once", key, ranked, want)
				}
			}
		},
	}
}

// skewed is how much later than its pops a backup of the tests is looked at.
const skewed = time.Minute

// outcome is a write to the first backup of a timer that recurs every far.
func outcome(kind store.WriteKind, key string, n, seq, attempt int) store.Write {
	w := store.Write{
		Kind: kind, Key: key, State: timer.State{Version: version(n), Seq: seq, Attempt: attempt}, RF: replicas, Rank: 1,
		DueIn: far, Retry: far / 2, Offset: skewed, Life: far,
	}
	if kind == store.WriteLive || kind == store.WriteNext {
		w.Timer = recurring(far, 9)
	}
	return w
}

// told sends one write in the way of outcomes.
func (r *rig) told(w store.Write) store.Written {
	r.Helper()
	answers := r.b.Tell(r.Context(), r.shard(), []store.Write{w})
	if len(answers) != 1 {
		r.Fatalf("one write told: %d answers", len(answers))
	}
	if answers[0].Err != nil {
		r.Fatalf("tell %s: %v", w.Kind, answers[0].Err)
	}
	return answers[0]
}

func (r *rig) toldStored(w store.Write) store.Written {
	r.Helper()
	answer := r.told(w)
	if answer.Status != store.WriteStored {
		r.Fatalf("tell %s: status %d, want stored", w.Kind, answer.Status)
	}
	return answer
}

// backup makes the first backup of a timer, at the given pop and attempt.
func (r *rig) backup(key string, n, seq, attempt int) store.ReadResult {
	r.Helper()
	r.toldStored(outcome(store.WriteLive, key, n, seq, attempt))
	return r.live(key)
}

func checkNextTold(r *rig) {
	before := r.backup("k", 5, 1, 0)
	for seq := 2; seq <= 4; seq++ {
		r.Pass(3 * time.Millisecond) // the pause must not move the grid
		w := outcome(store.WriteNext, "k", 5, seq, 0)
		due := before.Record.Start.Add(time.Duration(seq) * far)
		if answer := r.toldStored(w); answer.State != w.State || !answer.Due.Equal(due) || answer.New || answer.RF != replicas {
			r.Errorf("pop %d: %+v, want its state, due %v, %d copies", seq, answer, due, replicas)
		}
		got := r.live("k")
		if !got.Due.Equal(due) || !got.Look.Equal(due.Add(skewed)) || got.Leased {
			r.Errorf("pop %d: due %v, looked at %v later, want %v, %v", seq, got.Due, got.Look.Sub(got.Due), due, skewed)
		}
		want := before.Record
		want.State = w.State
		if !sameRecord(got.Record, want) {
			r.Errorf("pop %d: %+v, want %+v", seq, got.Record, want)
		}
	}
}

// sameRecord compares all but lists and tags.
func sameRecord(a, b store.Record) bool {
	return a.ID == b.ID && a.State == b.State && a.Rank == b.Rank && a.Start.Equal(b.Start) && a.Failure == b.Failure &&
		a.BodyHash == b.BodyHash && a.Timer.Interval == b.Timer.Interval && a.Timer.RepeatFor == b.Timer.RepeatFor &&
		a.Timer.Callback == b.Timer.Callback && a.Timer.ReplicationFactor == b.Timer.ReplicationFactor
}

func checkAgainTold(r *rig) {
	before := r.backup("k", 5, 1, 0)
	for attempt := 1; attempt <= 2; attempt++ {
		w := outcome(store.WriteAgain, "k", 5, 1, attempt)
		w.Failure = store.Failure{Node: nodeA, Reason: "status 500"}
		from, to := r.during(func() { r.toldStored(w) })
		got := r.live("k")
		if got.Record.State != w.State || got.Record.Failure.Node != nodeA || !got.Record.Start.Equal(before.Record.Start) {
			r.Errorf("attempt %d: %+v, want its state and failure, on the same grid", attempt, got.Record)
		}
		r.between("next look", got.Look, from.Add(w.Retry), to.Add(w.Retry))
	}
	w := outcome(store.WriteAgain, "k", 5, 1, 3)
	w.Retry, w.Failure = brief, store.Failure{Node: nodeB, Reason: "status 500"}
	from, to := r.during(func() { r.toldStored(w) })
	r.awaits("claimed", from.Add(brief), to.Add(brief), func() bool { return len(r.claimAll(r.a, leaving())) == 1 })
}

func checkLiveAttempt(r *rig) {
	w := outcome(store.WriteLive, "k", 5, 2, 1)
	w.DueIn, w.Retry = -far/2, far/3
	from, to := r.during(func() { r.toldStored(w) })
	got := r.live("k")
	r.between("next look", got.Look, from.Add(w.Retry), to.Add(w.Retry))
	r.between("start", got.Record.Start, from.Add(w.DueIn-2*far), to.Add(w.DueIn-2*far+slack))
	if got.Record.State != w.State || got.Record.Rank != 1 || !got.Due.Equal(got.Look) {
		r.Errorf("%+v, want the retry of the state that was written", got)
	}
	w.State.Seq, w.State.Attempt, w.DueIn = 3, 0, far/2
	from, to = r.during(func() { r.toldStored(w) })
	got = r.live("k")
	r.between("due", got.Due, from.Add(w.DueIn), to.Add(w.DueIn))
	r.between("next look", got.Look, from.Add(w.DueIn+skewed), to.Add(w.DueIn+skewed))
}

// checkMergeAsTell: a write does the same through Merge and through Tell.
func checkMergeAsTell(r *rig) {
	for i, kind := range []store.WriteKind{
		store.WriteLive, store.WriteNext, store.WriteAgain, store.WriteDone, store.WriteDrop, store.WriteGone, store.WriteLook,
	} {
		w := outcome(kind, "", 5, 2, 0)
		var answers []store.Written
		for _, way := range []string{"merged", "told"} {
			w.Key = fmt.Sprint(way, i)
			r.backup(w.Key, 5, 1, 0)
			if way == "told" {
				answers = append(answers, r.told(w))
			} else {
				answers = append(answers, r.merge(w))
			}
		}
		merged, told := r.read("merged"+fmt.Sprint(i)), r.read("told"+fmt.Sprint(i))
		if answers[0].Status != answers[1].Status || answers[0].State != answers[1].State || merged.Record.State != told.Record.State {
			r.Errorf("%s: %+v, and told %+v", kind, answers[0], answers[1])
		}
		if answers[0].Partition < 0 || answers[0].Partition >= store.Partitions {
			r.Errorf("%s: partition %d", kind, answers[0].Partition)
		}
	}
}
