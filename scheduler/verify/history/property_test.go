package history

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drawn makes a history without faults in which all is well.
type drawn struct {
	*book
	t       *rapid.T
	version int
}

func (d *drawn) between(low, high int, what string) int {
	return rapid.IntRange(low, high).Draw(d.t, what)
}

func drawHistory(t *rapid.T) *book {
	d := &drawn{book: newBook(), t: t}
	for i := range d.between(1, 6, "timers") {
		d.timer(fmt.Sprintf("k%d", i), d.between(0, 10_000, "begin"))
	}
	d.write(Create, "live", "/live", 0, 3_600_000, 1)
	d.copies("live", "/live", 1, 1, 3_400_000, "b", "a")
	d.sample()
	return d.book
}

// timer writes a timer up to three times, and perhaps deletes the timer.
func (d *drawn) timer(key string, begin int) {
	writes := d.between(1, 3, "writes")
	for i := range writes {
		kind := Replace
		if i == 0 {
			kind = Create
		}
		d.version++
		end := 150_000
		if i < writes-1 || d.between(0, 2, "delete") == 0 {
			end = begin + d.between(50, 8000, "lasts")
		}
		d.oneWrite(kind, key, begin, end)
		if begin = end; i == writes-1 && end < 150_000 {
			d.delete(key, end)
			d.get(key, end+d.between(opTook+1, 5000, "read after the delete"), "", 0)
		}
	}
}

// oneWrite makes the callbacks of a write whose successor is sent at end.
func (d *drawn) oneWrite(kind Kind, key string, begin, end int) {
	url := fmt.Sprintf("/%s/%d", key, d.version)
	interval, pops := d.between(300, 3000, "interval"), d.between(1, 6, "pops")
	d.write(kind, key, url, begin, interval, pops)
	written := begin + d.between(0, opTook, "written")
	read := begin + d.between(opTook+1, 20_000, "read")
	seq := 1
	for n := 1; n <= pops; n++ {
		next := end
		if n < pops {
			next = min(end, written+(n+1)*interval)
		}
		over := d.pop(key, url, n, written+n*interval, next)
		if over < read {
			seq = n + 1
		}
	}
	switch {
	case read+opTook >= end:
	case seq > pops:
		d.get(key, read, "", 0)
	default:
		d.get(key, read, url, seq)
	}
}

// pop makes the callbacks of one pop until the next pop is due, and returns when the pop was over.
func (d *drawn) pop(key, url string, n, due, next int) int {
	arrive := due + d.between(0, 100, "delay")
	for attempt := 1; attempt <= d.Header.Attempts && arrive < next; attempt++ {
		status := rapid.SampledFrom([]int{200, 200, 200, 204, 500}).Draw(d.t, "status")
		i := d.call(key, url, d.version, n, attempt, arrive, status)
		if status < 300 {
			return arrive + 1
		}
		wait := Retry{}.backoff(attempt).Milliseconds()
		d.Callbacks[i].RetryAfterMs = int64(rapid.SampledFrom([]int{0, 0, 3000}).Draw(d.t, "retry after"))
		wait = max(int64(d.between(0, int(wait), "backoff")), d.Callbacks[i].RetryAfterMs)
		arrive += 1 + int(wait) + d.between(0, 100, "delay of the retry")
	}
	return next
}

func TestACorrectHistoryPasses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := drawHistory(t)
		if r := small().Check(b.History); r.Verdict != VerdictPassed {
			t.Fatalf("verdict %s: %v %+v", r.Verdict, r.Reasons, r.Findings)
		}
	})
}

// mutation damages a history, and returns false if no damage is possible.
type mutation struct {
	want []Invariant // all must find the damage
	do   func(*rapid.T, *book, *run) bool
}

func TestADamagedHistoryFails(t *testing.T) {
	for name, m := range map[string]mutation{
		"pop dropped":        {only(NothingLost, LabelFree), dropPop},
		"callback twice":     {only(NoDuplicates, LabelFree), callTwice},
		"moved before due":   {only(NeverEarly), moveEarly},
		"moved after bound":  {only(OnTime), moveLate},
		"body altered":       {only(OnlyWhatWasTold), alterBody},
		"version altered":    {only(SequenceRises), alterVersion},
		"pop after the last": {only(OnlyWhatWasTold, LabelFree), addPop},
		"old version again":  {only(NoneAfterAnswer), callOld},
		"read of nothing":    {only(Linearizable), readNothing},
		"counter":            {only(MetricsAgree), miscount},
		"copy dropped":       {only(CopiesAtHome), func(_ *rapid.T, b *book, _ *run) bool { b.Copies = b.Copies[1:]; return true }},
	} {
		t.Run(name, func(t *testing.T) {
			done := 0
			rapid.Check(t, func(t *rapid.T) {
				b := drawHistory(t)
				if !m.do(t, b, newRun(&b.History, small())) {
					return
				}
				done++
				r := small().Check(b.History)
				for _, i := range m.want {
					if r.Of(i).Total == 0 {
						t.Fatalf("invariant %d found nothing: %+v", i, r.Findings)
					}
				}
			})
			if done < 10 {
				t.Errorf("only %d histories could be damaged", done)
			}
		})
	}
}

// pick returns one of the elements that fit, nil without a fitting element.
func pick[T any](t *rapid.T, all []T, fits func(*T) bool) *T {
	var fit []*T
	for i := range all {
		if fits(&all[i]) {
			fit = append(fit, &all[i])
		}
	}
	if len(fit) == 0 {
		return nil
	}
	return rapid.SampledFrom(fit).Draw(t, "picked")
}

func delivered(c *Callback) bool { return c.Status < 300 }

// unrefused tells whether no callback of w failed. Without labels, a failed callback accounts for a pop.
func unrefused(w *write) bool {
	return !slices.ContainsFunc(w.calls, func(c *Callback) bool { return !delivered(c) })
}

// firstOf tells whether the write of c is known, and c the first callback of its pop.
func firstOf(r *run, c *Callback) bool {
	w := r.finder.find(c.URL, c.BodyHash)
	return w.pops[c.Seq][0].ArriveNs == c.ArriveNs
}

func dropPop(t *rapid.T, b *book, r *run) bool {
	type pop struct {
		url string
		n   int
	}
	var pops []pop
	for _, w := range r.writes {
		r.eachObligatory(w, func(n int, _ time.Duration) {
			if unrefused(w) {
				pops = append(pops, pop{w.asked.URL, n})
			}
		})
	}
	p := pick(t, pops, func(*pop) bool { return true })
	if p == nil {
		return false
	}
	b.Callbacks = slices.DeleteFunc(b.Callbacks, func(c Callback) bool { return c.URL == p.url && c.Seq == p.n })
	return true
}

func callTwice(t *rapid.T, b *book, r *run) bool {
	c := pick(t, b.Callbacks, func(c *Callback) bool {
		w := r.finder.find(c.URL, c.BodyHash)
		return unrefused(w) && c.Seq == w.asked.Pops
	})
	if c == nil {
		return false
	}
	again := *c
	again.move(c.ArriveNs + at(rapid.IntRange(0, 30_000).Draw(t, "later")))
	b.Callbacks = append(b.Callbacks, again)
	return true
}

func moveEarly(t *rapid.T, b *book, r *run) bool {
	c := pick(t, b.Callbacks, func(c *Callback) bool { return firstOf(r, c) })
	if c == nil {
		return false
	}
	w := r.finder.find(c.URL, c.BodyHash)
	c.move(int64(w.earliest(c.Seq)) - at(1) - 1 - at(rapid.IntRange(0, 100).Draw(t, "by")))
	return true
}

func moveLate(t *rapid.T, b *book, r *run) bool {
	c := pick(t, b.Callbacks, func(c *Callback) bool { return firstOf(r, c) && c.Seq == 1 })
	if c == nil {
		return false
	}
	w := r.finder.find(c.URL, c.BodyHash)
	for i := range b.Callbacks { // the retries move, too; callbacks of later pops stay
		if o := &b.Callbacks[i]; o != c && o.URL == c.URL && o.Seq == 1 {
			o.move(o.ArriveNs + at(60_000))
		}
	}
	late := r.bound(w, 1)
	for _, o := range w.calls {
		if o.Seq > 1 {
			late = max(late, o.over()+r.l.Settle+r.l.Late)
		}
	}
	c.move(int64(late) + 1 + at(rapid.IntRange(0, 100).Draw(t, "by")))
	return true
}

func alterBody(t *rapid.T, b *book, _ *run) bool {
	c := pick(t, b.Callbacks, func(*Callback) bool { return true })
	if c != nil {
		c.BodyHash = "another"
	}
	return c != nil
}

func alterVersion(t *rapid.T, b *book, _ *run) bool {
	c := pick(t, b.Callbacks, func(*Callback) bool { return true })
	if c != nil {
		c.Version = "another"
	}
	return c != nil
}

func addPop(t *rapid.T, b *book, r *run) bool {
	c := pick(t, b.Callbacks, func(c *Callback) bool {
		w := r.finder.find(c.URL, c.BodyHash)
		return unrefused(w) && c.Seq == w.asked.Pops
	})
	if c == nil {
		return false
	}
	again := *c
	again.Seq++
	again.WebhookID = fmt.Sprintf("%s.%s.%d", again.Key, again.Version, again.Seq)
	again.move(c.ArriveNs + at(500))
	b.Callbacks = append(b.Callbacks, again)
	return true
}

func callOld(t *rapid.T, b *book, r *run) bool {
	successor := func(c *Callback) *Operation {
		w := r.finder.find(c.URL, c.BodyHash)
		for _, op := range r.byKey[w.key].ops {
			if op.writes() && op.invoked() > w.returned {
				return op
			}
		}
		return nil
	}
	c := pick(t, b.Callbacks, func(c *Callback) bool { return successor(c) != nil })
	if c == nil {
		return false
	}
	again := *c
	again.move(successor(c).ReturnNs + 1)
	b.Callbacks = append(b.Callbacks, again)
	return true
}

func readNothing(t *rapid.T, b *book, _ *run) bool {
	o := pick(t, b.Operations, func(o *Operation) bool { return o.Read != nil })
	if o != nil {
		o.Read.URL = "/nobody"
	}
	return o != nil
}

func miscount(t *rapid.T, b *book, _ *run) bool {
	name := rapid.SampledFrom([]string{CountDelivered, CountFailed, CountGone}).Draw(t, "counter")
	b.Samples[1].Counters[name] += int64(rapid.SampledFrom([]int{-1, 1}).Draw(t, "by"))
	return true
}
