package history

import (
	"cmp"
	"slices"
	"time"
)

// run is a history, sorted and indexed for the invariants.
type run struct {
	h       *History
	l       Limits
	end     time.Duration
	timers  []*timer          // one for each key
	byKey   map[string]*timer // the same timers, by key
	homes   map[string][]*Home
	writes  []*write    // by invocation, with refused writes
	unasked []*Callback // callbacks that match no write
	finder  finder
	// revisions are the patches, by URL and body.
	revisions map[string]*revision
	windows   []window // by start, without faults that have no window
	levels    []level  // by start

	counts     Counts
	duplicates []string // the explained duplicates
	problems   []string
}

// timer is the record of all operations on one key.
type timer struct {
	key    string
	ops    []*Operation // by invocation, with GETs, without refused operations
	writes []*write     // creates and replaces, by invocation, without refused writes
	byOp   map[*Operation]*write
	// revisions are the patches that may have taken effect.
	revisions []*revision
	// moves are the fires and delays, by invocation, without refused operations.
	moves []*Operation
}

// done is the instant by which an operation has taken effect, if the operation ever does. For a repeated create, the
// repeat that was answered counts.
func (r *run) done(t *timer, op *Operation) time.Duration {
	if w := t.byOp[op]; w != nil {
		return w.returned
	}
	return op.done(r.l.TakesEffect)
}

func newRun(h *History, l Limits) *run {
	r := &run{h: h, l: l, end: time.Duration(h.End.AtNs), byKey: make(map[string]*timer)}
	r.count()
	r.indexHomes()
	r.indexFaults()
	r.indexWrites()
	r.finder = newFinder(r.writes)
	if r.finder.ambiguous > 0 {
		r.problem("%d writes ask for the same URL and body as another one", r.finder.ambiguous)
	}
	r.indexRevisions()
	r.indexCallbacks()
	r.indexMoves()
	return r
}

func (r *run) count() {
	r.counts = Counts{
		Operations: make(map[Kind]int), Done: make(map[Kind]int), Outcomes: make(map[Outcome]int), Faults: make(map[string]int), Duplicates: make(map[Class]int),
		Callbacks: len(r.h.Callbacks),
	}
	for i := range r.h.Operations {
		op := &r.h.Operations[i]
		r.counts.Operations[op.Kind]++
		r.counts.Outcomes[op.Outcome]++
		if op.Outcome == OK {
			r.counts.Done[op.Kind]++
		}
	}
	for i := range r.h.Faults {
		if f := &r.h.Faults[i]; f.Class != HeldUp {
			r.counts.Faults[f.Kind]++
		}
	}
	for i := range r.h.Callbacks {
		if r.h.Callbacks[i].Attempt > 1 {
			r.counts.Retries++
		}
	}
}

// indexWrites sorts the operations into timers and writes.
func (r *run) indexWrites() {
	ops := make([]*Operation, len(r.h.Operations))
	for i := range ops {
		ops[i] = &r.h.Operations[i]
	}
	slices.SortStableFunc(ops, func(a, b *Operation) int { return cmp.Compare(a.InvokeNs, b.InvokeNs) })
	repeats := make(map[string]*write)
	for _, op := range ops {
		if op.Kind == Create && op.IdempotencyKey != "" {
			if w := repeats[op.IdempotencyKey]; w != nil && !r.createsAgain(w, op) {
				w.repeat(r, op)
				continue
			}
		}
		var w *write
		if op.Timer != nil && op.Kind != Patch {
			w = newWrite(r, op)
			r.writes = append(r.writes, w)
			if op.IdempotencyKey != "" {
				w.before, repeats[op.IdempotencyKey] = repeats[op.IdempotencyKey], w
			}
		}
		switch t := r.timer(op.about()); {
		case w != nil || op.refused():
		case op.moves():
			t.moves = append(t.moves, op)
		default:
			t.ops = append(t.ops, op)
		}
	}
	shareKeys(r.writes)
	for _, w := range r.writes {
		if w.refused || w.key == "" {
			continue
		}
		t := r.timer(w.key)
		t.ops, t.writes, t.byOp[w.op] = append(t.ops, w.op), append(t.writes, w), w
	}
	for _, t := range r.timers {
		slices.SortStableFunc(t.ops, func(a, b *Operation) int { return cmp.Compare(a.InvokeNs, b.InvokeNs) })
	}
}

func (r *run) timer(key string) *timer {
	t := r.byKey[key]
	if t == nil {
		t = &timer{key: key, byOp: make(map[*Operation]*write)}
		r.byKey[key] = t
		r.timers = append(r.timers, t)
	}
	return t
}

// indexCallbacks finds the write of every callback, by URL and body and not by labels.
func (r *run) indexCallbacks() {
	calls := make([]*Callback, len(r.h.Callbacks))
	for i := range calls {
		calls[i] = &r.h.Callbacks[i]
		calls[i].limit = r.h.Header.limit()
	}
	slices.SortStableFunc(calls, func(a, b *Callback) int { return cmp.Compare(a.ArriveNs, b.ArriveNs) })
	created := make(map[*write][]*write)
	for _, w := range r.writes {
		created[w.root()] = append(created[w.root()], w)
	}
	shared := make(map[*write][]*Callback)
	for _, c := range calls {
		w, v := r.find(c)
		c.revision = v
		switch {
		case w == nil:
			r.unasked = append(r.unasked, c)
		case len(created[w]) > 1:
			shared[w] = append(shared[w], c)
		default:
			w.take(c)
		}
	}
	for w, calls := range shared {
		r.share(created[w], calls)
	}
}

// finder finds the write of a URL and a body: the first write, if several writes share an Idempotency-Key.
type finder struct {
	exact, byURL, byBody map[string]*write // nil if several writes match
	ambiguous            int
}

func newFinder(writes []*write) finder {
	f := finder{exact: make(map[string]*write), byURL: make(map[string]*write), byBody: make(map[string]*write)}
	note := func(m map[string]*write, key string, w *write) (twice bool) {
		_, twice = m[key]
		if twice {
			w = nil
		}
		m[key] = w
		return twice
	}
	for _, w := range writes {
		if w.before != nil {
			continue
		}
		if note(f.exact, w.asked.URL+"\n"+w.asked.BodyHash, w) {
			f.ambiguous++
		}
		note(f.byURL, w.asked.URL, w)
		note(f.byBody, w.asked.BodyHash, w)
	}
	return f
}

// find is nil if no write matches, or more than one write. The URL alone, or else the body alone, is enough if only
// one write matches.
func (f *finder) find(url, body string) *write {
	if w, known := f.exact[url+"\n"+body]; known {
		return w
	}
	if w := f.byURL[url]; w != nil {
		return w
	}
	return f.byBody[body]
}
