package redisstore

import (
	"context"
	"time"

	"pgregory.net/rapid"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// The random choices of the differential test.

func draw[T any](d *differ, what string, from ...T) T {
	return rapid.SampledFrom(from).Draw(d.rt, what)
}

func (d *differ) node() int   { return rapid.IntRange(0, len(d.stores)-1).Draw(d.rt, "node") }
func (d *differ) key() string { return draw(d, "key", d.keys...) }

// some is a small multiple of the run's unit, now and then with half a millisecond to be rounded.
func (d *differ) some(what string) time.Duration {
	return d.whole(what) + draw(d, what+" and", 0, 0, 0, time.Millisecond/2)
}

func (d *differ) whole(what string) time.Duration {
	return time.Duration(draw(d, what, 0, 0, 1, 1, 2, 2, 3, 5, 10, 100)) * d.unit
}

// version is near the stored timer's version, mostly above; otherwise the version is one of a few that differ in all
// kinds of bits.
func (d *differ) version(key string) timer.Version {
	stored := d.stored(key).Version
	if where := draw(d, "version", "above", "above", "above", "same", "by tag", "below", "any"); where != "any" {
		return beside(stored, where)
	}
	return timer.VersionAt(time.UnixMilli(draw(d, "ms", int64(0x99a), 0x99f, 0x9a0, 0xa00)), draw(d, "tag", uint16(9), 0xa, 0xaa, 0xff))
}

// rev is near the stored timer's revision; 0 for none.
func (d *differ) rev(key string) timer.Version {
	where := draw(d, "revision", "none", "same", "above", "by tag", "below")
	if where == "none" {
		return 0
	}
	return beside(d.stored(key).Rev, where)
}

// beside is a version near another version.
func beside(stored timer.Version, where string) timer.Version {
	switch where {
	case "above":
		return stored + 1<<16
	case "by tag":
		return stored + 1
	case "below":
		return stored - min(stored, 1<<16)
	}
	return stored
}

// stored is the model's state of a timer or of the timer's tombstone.
func (d *differ) stored(key string) timer.State {
	return d.views[0].Read(context.Background(), spots(key))[0].Record.State
}

func (d *differ) timer() *timer.Timer {
	t := &timer.Timer{ReplicationFactor: 2, Callback: timer.Callback{URI: draw(d, "uri", "http://a", "http://b")}}
	switch draw(d, "kind", "one-shot", "one-shot", "recurring", "recurring", "instant") {
	case "one-shot":
		t.Interval = d.whole("interval")
	case "recurring":
		t.Interval = max(d.whole("interval"), d.unit)
		t.RepeatFor = t.Interval * time.Duration(draw(d, "pops", 1, 2, 3, 50))
	case "instant":
		t.At = d.now.Truncate(time.Millisecond).Add(d.whole("ahead") - 3*d.unit).UTC()
	}
	t.Callback.Method = draw(d, "method", "", "", "PUT") // a record of the second format
	t.Tags = draw(d, "tags", nil, nil, []timer.Tag{{Type: "a b", Count: 2}}, []timer.Tag{{Type: "-", Count: 1}, {Type: "a b", Count: 5}},
		[]timer.Tag{{Type: "=,% {", Count: 1<<31 - 1}, {Type: "a b", Count: 1}, {Type: "-x", Count: 1}, {Type: "a b", Count: 1}})
	return t
}

// pairs are some leases, also past leases, and now and then a lease twice.
func (d *differ) pairs() []leasePair {
	if len(d.leases) == 0 {
		d.rt.Skip("no lease yet")
	}
	recent := d.leases[max(0, len(d.leases)-2):]
	var pairs []leasePair
	for range draw(d, "leases", 1, 1, 2, 3) {
		from := d.leases
		if draw(d, "recent", true, true, true, false) {
			from = recent
		}
		pairs = append(pairs, from[rapid.IntRange(0, len(from)-1).Draw(d.rt, "lease")])
	}
	return pairs
}

// gained remembers the leases that store and model granted.
func (d *differ) gained(node int, backend, model store.Claimed) {
	d.leases = append(d.leases, leasePair{node: node, store: backend.Lease, model: model.Lease, grave: model.Record.State.Ended})
}

// state is the stored timer's state, a state nearby, or another state.
func (d *differ) state(key string) timer.State {
	state := d.stored(key)
	switch draw(d, "state", "stored", "near", "near", "any") {
	case "near":
		state.Seq += draw(d, "seq ahead", 0, 0, 1)
		state.Attempt += draw(d, "attempts ahead", 0, 0, 1)
	case "any":
		state = timer.State{
			Version: d.version(key), Seq: draw(d, "seq", 1, 1, 2, 3), Attempt: draw(d, "attempt", 0, 0, 1), Ended: draw(d, "ended", false, true),
		}
	}
	return state
}

// away is a list without repetitions.
func (d *differ) away(what string) []store.Away {
	return draw(d, what, nil, nil, nil, []store.Away{{Shard: "b", Rank: 1}}, []store.Away{{Shard: "b", Rank: 10}},
		[]store.Away{{Shard: "c", Rank: 0}, {Shard: "b", Rank: 1}}, []store.Away{{Shard: "b", Rank: 0}, {Shard: "bb", Rank: 1}})
}

func (d *differ) failure() store.Failure {
	f := draw(d, "failure", store.Failure{}, store.Failure{}, store.Failure{Node: "node0", Reason: "status 503: @ %"}, store.Failure{Node: "other"})
	if !f.IsZero() && draw(d, "failed at a known time", false, false, true) {
		f.At = d.now.Add(-d.unit).Truncate(time.Millisecond).UTC()
	}
	return f
}

// write is any write of a client, an outcome or a repair. The second result is the same write for the model, which
// knows a lease by another token.
func (d *differ) write() (kept, model store.Write) {
	w := store.Write{
		Kind: draw(d, "kind of write", store.WritePut, store.WritePut, store.WriteOnce, store.WriteAnew, store.WriteGone, store.WriteLook,
			store.WriteLive, store.WriteLive, store.WriteDone, store.WriteDone, store.WriteNext, store.WriteNext,
			store.WriteAgain, store.WriteAgain, store.WriteDrop, store.WriteOnto, store.WriteOnto, store.WriteBury,
			store.WriteLeave, store.WriteLeave, store.WriteRank, store.WriteAmend, store.WriteAmend, store.WriteAmend, store.WriteHasten, store.WriteHasten),
		Shard: "a", Key: d.key(), RF: draw(d, "rf", 0, 2, 2, 2, 3), Rank: draw(d, "rank", 0, 1, 2), Away: d.away("away"),
		DueIn: d.some("due in"), Retry: d.some("retry"), Offset: d.some("offset"), Life: d.some("life"), Keep: d.some("keep"),
		BodyHash: draw(d, "body hash", "", "", "", "aa", "bb"),
	}
	if draw(d, "a client's state", false, true) {
		w.State = timer.State{Version: d.version(w.Key), Seq: 1}
	} else {
		w.State = d.state(w.Key)
	}
	w.State.Rev = 0
	if w.Kind == store.WriteAmend || w.Kind == store.WriteLive || w.Kind == store.WriteOnto || w.Kind == store.WriteDone {
		w.State.Rev = d.rev(w.Key)
	}
	switch w.Kind {
	case store.WriteAnew:
		if draw(d, "without a timer", false, true) {
			break
		}
		fallthrough
	case store.WritePut, store.WriteOnce, store.WriteLive, store.WriteAmend, store.WriteOnto, store.WriteNext:
		w.Timer, w.Failure, w.LeftOut = d.timer(), d.failure(), draw(d, "left out", 0, 0, 3)
		w.Timer.ReplicationFactor = max(w.RF, 1)
		if draw(d, "overdue", false, false, true) {
			w.DueIn = -w.DueIn
		}
	case store.WriteAgain:
		w.Failure, w.LeftOut = d.failure(), draw(d, "left out", 0, 0, 3)
	case store.WriteRank:
		w.Timer, w.State.Ended = d.timer(), false
		w.Timer.ReplicationFactor = max(w.RF, 1)
	case store.WriteLeave:
		w.State.Ended, w.State.Seq = draw(d, "of a tombstone", false, true), max(w.State.Seq, 1)
	case store.WriteHasten:
		w.State.Ended = false
	case store.WriteGone, store.WriteBury, store.WriteDone, store.WriteLook, store.WriteDrop:
	}
	m := w
	if len(d.leases) > 0 && draw(d, "leased", false, false, true) {
		p := d.leases[rapid.IntRange(max(0, len(d.leases)-2), len(d.leases)-1).Draw(d.rt, "lease")]
		w.Key, w.Token, m.Key, m.Token = p.store.Key, p.store.Token, p.model.Key, p.model.Token
	} else if (w.Kind == store.WritePut || w.Kind == store.WriteGone || w.Kind == store.WriteAmend || w.Kind == store.WriteHasten) && draw(d, "on a condition", false, false, true) {
		newest := store.Newest{Version: draw(d, "newest", 0, d.version(w.Key), d.stored(w.Key).Version), Rev: d.rev(w.Key)}
		if w.Kind == store.WritePut && draw(d, "on an exact condition", false, true) {
			at := d.state(w.Key)
			newest.Seq, newest.Attempt = max(at.Seq, 1), at.Attempt
		}
		w.IfNewest, m.IfNewest = &newest, &newest
	}
	return w, m
}

// writes are some writes, now and then for copies of one timer, which share their contents.
func (d *differ) writes() (backend, model []store.Write) {
	for range draw(d, "writes", 1, 1, 2, 3) {
		w, m := d.write()
		if n := len(backend); n > 0 && w.Timer != nil && backend[n-1].Timer != nil && draw(d, "of one timer", false, true) {
			w.Timer, m.Timer = backend[n-1].Timer, backend[n-1].Timer
			w.RF, m.RF = backend[n-1].RF, backend[n-1].RF
			if draw(d, "with one hash", false, true) {
				w.BodyHash, m.BodyHash = backend[n-1].BodyHash, backend[n-1].BodyHash
			}
			if draw(d, "with one failure", false, true) {
				w.Failure, m.Failure = backend[n-1].Failure, backend[n-1].Failure
			}
		}
		backend, model = append(backend, w), append(model, m)
	}
	return backend, model
}
