package storetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// stateCases are rule "order of states": a copy's state is (version, seq, attempt), compared in this order; a
// tombstone is the state after the last.
func stateCases() map[string]func(*rig) {
	return map[string]func(*rig){
		"newer wins, older and same change nothing": checkStateTable,
		"same version with another body is refused": checkConflicts,
		"versions compare by all their bits":        checkVersionBits,
		"a create that comes again after its fence is older": func(r *rig) {
			c := r.leased("k", oneShot(0), far)
			r.pass(c, 1, terms(far, far))
			w := r.merge(write("k", 1, oneShot(0)))
			if want := (timer.State{Version: version(1), Seq: 1, Attempt: 1}); w.Status != store.WriteNewer || w.State != want {
				r.Errorf("status %d, state %+v, want newer, %+v", w.Status, w.State, want)
			}
			r.accept(c, store.Settlement{Outcome: store.OutcomeDone})
		},
		"a create that comes again after its next pop is older": func(r *rig) {
			c := r.leased("k", recurring(brief, 9), far)
			r.accept(c, store.Settlement{Outcome: store.OutcomeNext})
			w := r.merge(write("k", 1, recurring(brief, 9)))
			if want := (timer.State{Version: version(1), Seq: 2}); w.Status != store.WriteNewer || w.State != want {
				r.Errorf("status %d, state %+v, want newer, %+v", w.Status, w.State, want)
			}
		},
		"times are no part of the state": func(r *rig) {
			w := r.put("k", 1, oneShot(far))
			r.Pass(5 * time.Millisecond)
			again := r.merge(write("k", 1, oneShot(far)))
			if again.Status != store.WriteSame || !again.Due.Equal(w.Due) {
				r.Errorf("status %d, due moved by %v, want same, unmoved", again.Status, again.Due.Sub(w.Due))
			}
		},
	}
}

// present is a state that a write finds, made again for each write.
type present struct {
	name  string
	state timer.State
	make  func(r *rig, key string)
}

func presents() []present {
	one := func(r *rig, key string) { r.put(key, 5, oneShot(0)) }
	return []present{
		{"nothing", timer.State{}, func(*rig, string) {}},
		{"live", timer.State{Version: version(5), Seq: 1}, one},
		{"live, attempted", timer.State{Version: version(5), Seq: 1, Attempt: 1}, func(r *rig, key string) {
			one(r, key)
			c := r.claim(r.a, request())
			r.pass(c, 1, terms(far, far))
			r.accept(c, store.Settlement{Outcome: store.OutcomeAgain, Delay: far})
		}},
		{"tombstone", timer.State{Version: version(5), Ended: true}, func(r *rig, key string) { r.put(key, 5, nil) }},
		{"tombstone on live", timer.State{Version: version(5), Ended: true}, func(r *rig, key string) {
			one(r, key)
			r.put(key, 5, nil)
		}},
	}
}

func checkStateTable(r *rig) {
	const stored, same, newer = store.WriteStored, store.WriteSame, store.WriteNewer
	want := map[string][6]store.WriteStatus{
		// live of version 4, 5 (as it was), 6; end of version 4, 5, 6
		"nothing":           {stored, stored, stored, stored, stored, stored},
		"live":              {newer, same, stored, newer, stored, stored},
		"live, attempted":   {newer, newer, stored, newer, stored, stored},
		"tombstone":         {newer, newer, stored, newer, same, stored},
		"tombstone on live": {newer, newer, stored, newer, same, stored},
	}
	for _, p := range presents() {
		for i, status := range want[p.name] {
			n, asked := 4+i%3, oneShot(0)
			if i >= 3 {
				asked = nil
			}
			r.Run(fmt.Sprintf("%s, version %d, ended %v", p.name, n, asked == nil), func(t *testing.T) {
				sub := &rig{T: t, Fixture: r.Fixture, a: r.a, b: r.b}
				key := fmt.Sprintf("k%d-%d", i, len(p.name))
				p.make(sub, key)
				sub.expect(write(key, n, asked), status, p.state)
				sub.merge(write(key, 9, nil)) // so that the next claim doesn't find the timer
			})
		}
	}
}

// expect merges w and checks the answer and the contents afterwards: w's state or, if w isn't stored, the state
// before.
func (r *rig) expect(w store.Write, status store.WriteStatus, was timer.State) {
	r.Helper()
	before := r.read(w.Key)
	answer := r.merge(w)
	after := was
	if status == store.WriteStored {
		after = timer.State{Version: w.State.Version, Seq: 1}
		if w.Timer == nil {
			after = timer.State{Version: w.State.Version, Ended: true}
		}
	}
	if answer.Status != status || answer.State.Compare(after) != 0 {
		r.Errorf("status %d, state %+v, want %d, %+v", answer.Status, answer.State, status, after)
	}
	got := r.read(w.Key)
	if missing := errors.Is(got.Err, timer.ErrNotFound); missing != after.Ended {
		r.Errorf("read afterwards: %v", got.Err)
	}
	if d, differs := r.ask(r.shard(), w.Key, after); differs && d.Firing == 0 {
		r.Errorf("state afterwards is %+v, want %+v", d.State, after)
	}
	if status != store.WriteStored && before.Err == nil {
		before.LookIn, before.DueIn = got.LookIn, got.DueIn // the times shrink meanwhile
		if diff := cmp.Diff(before, got); diff != "" {
			r.Errorf("it changed what it found (-before +after):\n%s", diff)
		}
	}
}

func checkConflicts(r *rig) {
	for name, change := range map[string]func(*store.Write){
		"interval":   func(w *store.Write) { w.Timer.Interval = 2 * far },
		"instant":    func(w *store.Write) { w.Timer.Interval, w.Timer.At = 0, time.UnixMilli(4e12).UTC() },
		"repeat-for": func(w *store.Write) { w.Timer.RepeatFor = 3 * far },
		"uri":        func(w *store.Write) { w.Timer.Callback.URI = "http://receiver.example/other" },
		"opaque":     func(w *store.Write) { w.Timer.Callback.Opaque = "other" },
		"method":     func(w *store.Write) { w.Timer.Callback.Method = "PUT" },
		"headers":    func(w *store.Write) { w.Timer.Callback.Headers = headers(r.T, "X-Other", "1") },
		"timeout":    func(w *store.Write) { w.Timer.Callback.Timeout = time.Second },
		"retry":      func(w *store.Write) { w.Timer.Callback.Retry.Attempts = 1 },
		"expiry":     func(w *store.Write) { w.Timer.ExpiresAfter = time.Minute },
		"tags":       func(w *store.Write) { w.Timer.Tags = []timer.Tag{{Type: "call", Count: 1}} },
	} {
		r.Run(name, func(t *testing.T) {
			sub := &rig{T: t, Fixture: r.Fixture, a: r.a, b: r.b}
			key := strings.ReplaceAll(name, " ", "-")
			w := sub.put(key, 5, oneShot(far))
			other := write(key, 5, oneShot(far))
			change(&other)
			sub.expect(other, store.WriteConflict, w.State)
		})
	}
}

// A version is a number of 64 bits in every representation.
func checkVersionBits(r *rig) {
	pairs := [][2]timer.Version{
		{0x9, 0xa}, {0xf, 0x10}, {0xaa, 0xab}, {0xaa, 0xb0}, {0xaa, 0xff}, {0x99, 0xa0}, {0xffff, 0x1_0000},
		{0x7fff_ffff_ffff_ffff, 0x8000_0000_0000_0000}, {0x9fff_ffff_ffff_ffff, 0xa000_0000_0000_0000},
		{0x0001_0000_0000_0001, 0x0001_0000_0000_0002}, {0x8000_0000_0000_0001, 0x8000_0000_0000_0002},
		{0xffff_ffff_ffff_fffe, 0xffff_ffff_ffff_ffff}, {0x019a_bcde_f012_ffff, 0x019a_bcde_f013_0000},
		{0xaaaa_aaaa_aaaa_aaaa, 0xaaaa_aaaa_aaaa_aaab}, {0xaaaa_aaaa_aaaa_aaaa, 0xffff_ffff_ffff_ffff},
	}
	for i, pair := range pairs {
		key := fmt.Sprint("k", i)
		for _, step := range []struct {
			version timer.Version
			want    store.WriteStatus
		}{{pair[0], store.WriteStored}, {pair[1], store.WriteStored}, {pair[0], store.WriteNewer}, {pair[1], store.WriteSame}} {
			w := write(key, 0, oneShot(far))
			w.State.Version = step.version
			if answer := r.merge(w); answer.Status != step.want {
				r.Errorf("%v of %v and %v: status %d, want %d", step.version, pair[0], pair[1], answer.Status, step.want)
			}
		}
		if got := r.live(key).Record.State.Version; got != pair[1] {
			r.Errorf("%v is there, want %v", got, pair[1])
		}
	}
}
