package history

import (
	"cmp"
	"slices"
	"time"
)

// write is a create or replace, with its callbacks and all repeats of the same Idempotency-Key (but see
// createsAgain).
type write struct {
	op     *Operation // the first request; for all repeats together see invoked, returned, ok
	asked  *Asked
	key    string // empty if no answer named the key
	before *write // the write before with the same Idempotency-Key, if all its copies may have been lost since; else nil
	// The write took effect between invoked and returned. A write that isn't ok may also never take effect.
	invoked, returned time.Duration
	ok, refused       bool
	nodes             []string      // nodes that got a request
	copies            int           // as the answer says
	rf                int           // as asked for
	unreached         int           // copies without the write, as the answer says
	busyUntil         time.Duration // until when a callback of the version before may hold the write up
	interval, skew    time.Duration
	limit             time.Duration // how long an answer to a callback may take
	attempts          int           // at a pop
	expires           time.Duration // how long after its due time a pop is attempted; the constant never for no bound
	calls             []*Callback   // by arrival
	pops              map[int][]*Callback
	inFlight          time.Duration
	bounds            []time.Duration // results of run.bound
	until             time.Duration   // result of run.until; 0 before
	fires, delays     []move          // that may have moved the pops, by invocation
}

func newWrite(r *run, op *Operation) *write {
	rf := op.Timer.RF
	if rf == 0 {
		rf = r.h.Header.RF
	}
	interval := ms(op.Timer.IntervalMs)
	w := &write{
		op: op, asked: op.Timer, key: op.about(), interval: interval, skew: r.h.Header.skew(interval, rf),
		invoked: op.invoked(), returned: op.done(r.l.TakesEffect), refused: op.refused(), copies: rf, rf: rf,
		pops: make(map[int][]*Callback), inFlight: r.l.InFlight, nodes: []string{op.Node},
		limit: cmp.Or(ms(op.Timer.TimeoutMs), r.h.Header.limit()), attempts: cmp.Or(op.Timer.Retry.Attempts, r.h.Header.Attempts),
		expires: cmp.Or(ms(op.Timer.ExpiresMs), never),
	}
	w.answered(op)
	return w
}

// answered notes the first answer with success.
func (w *write) answered(op *Operation) {
	if w.ok || op.Outcome != OK {
		return
	}
	w.ok, w.returned, w.key = true, op.returned(), op.about()
	if op.Answer.Copies > 0 {
		w.copies = op.Answer.Copies
	}
	w.unreached = op.Answer.Unreached
	if op.Answer.InFlight {
		w.busyUntil = later(w.returned, w.inFlight)
	}
}

// repeat notes that the write was sent again with the same Idempotency-Key.
func (w *write) repeat(r *run, op *Operation) {
	if !w.ok && !op.refused() {
		w.returned = max(w.returned, op.done(r.l.TakesEffect))
	}
	w.refused, w.nodes = w.refused && op.refused(), append(w.nodes, op.Node)
	w.answered(op)
}

func (w *write) take(c *Callback) {
	c.limit = w.limit
	w.calls = append(w.calls, c)
	w.pops[c.Seq] = append(w.pops[c.Seq], c)
}

// timer is the key of the timer: by an answer, or else by the first callback.
func (w *write) timer() string {
	if w.key == "" && len(w.calls) > 0 {
		return w.calls[0].Key
	}
	return w.key
}

// version is the version of the first callback, empty without a callback.
func (w *write) version() string {
	if len(w.calls) == 0 {
		return ""
	}
	return w.calls[0].Version
}

// earliest is the instant before which pop n is certainly not due.
func (w *write) earliest(n int) time.Duration { return w.hastened(n, w.onGrid(n)) }

// onGrid is earliest without fires. A pop that waits for a retry gives way to the next pop then, and no sooner.
func (w *write) onGrid(n int) time.Duration { return later(w.due(w.invoked, n), w.delayedFor(n)) }

// latest is the instant at which pop n is certainly due; the constant never if the write is perhaps not done.
func (w *write) latest(n int) time.Duration {
	if !w.ok {
		return never
	}
	return later(w.due(w.returned, n), w.delayedUpTo(n))
}

// due is when pop n is due if the write took effect at the given instant.
func (w *write) due(written time.Duration, n int) time.Duration {
	if w.asked.AtNs != nil {
		return max(written, later(time.Duration(*w.asked.AtNs), w.interval*time.Duration(n-1)))
	}
	return later(written, w.interval*time.Duration(n))
}

// delivered tells whether pop n was answered 2xx or 410 by the given time before the limit.
func (w *write) delivered(n int, before time.Duration) bool {
	return slices.ContainsFunc(w.pops[n], func(c *Callback) bool { return c.succeeded(before) || c.gone(before) })
}

// goneAt is the arrival of the first callback whose answer, a 410 in time, ended the timer; the constant never
// without a 410.
func (w *write) goneAt() time.Duration {
	for _, c := range w.calls {
		if c.gone(0) {
			return c.arrived()
		}
	}
	return never
}

// follows tells whether a callback of a later pop than n came.
func (w *write) follows(n int) bool {
	return slices.ContainsFunc(w.calls, func(c *Callback) bool { return c.Seq > n })
}
