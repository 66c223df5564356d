package simtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"chronos/scheduler"
	"chronos/scheduler/awake"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/verify/history"
	"chronos/scheduler/webhook/webhooktest"
)

// answerWithin is the time limit of the HTTP edge for a request.
const answerWithin = 900 * time.Millisecond

// client sends operations to nodes, one after another, about the client's own timers only. Two operations may
// be under way together if the client has sent two at once, or has given the first up.
type client struct {
	number int
	r      *rand.Rand
	asks   *rand.Rand // for what timers ask for themselves: the other choices of a seed stay
	moves  *rand.Rand // for fires and delays, likewise
	c      *cluster
	made   []timer.ID // timers that the client may know of
	later  []timer.ID // further timers, which are delayed and nothing else
	writes int
	left   sync.WaitGroup // operations that the client has given up

	heard    sync.Mutex
	versions map[string]timer.Version // by key, as answers said last
}

func newClient(c *cluster, number int) *client {
	source := func(n int) *rand.Rand { return rand.New(rand.NewPCG(c.setting.seed, uint64(n+number))) }
	return &client{number: number, c: c, r: source(100), asks: source(1000), moves: source(2000), versions: map[string]timer.Version{}}
}

// run sends operations until ctx ends.
func (cl *client) run(ctx context.Context) {
	defer cl.left.Wait()
	for awake.Sleep(ctx, time.Duration(cl.r.ExpFloat64()*float64(cl.c.setting.think))) {
		draw, troubled := cl.r.IntN(100), cl.c.setting.troubled(cl.c.journal.now()) && cl.r.IntN(3) == 0
		switch {
		case draw < 3:
			cl.createMany(ctx)
		case draw < 55 || len(cl.made) == 0:
			cl.create(ctx)
		case draw < 63:
			cl.createOnce(ctx)
		case draw < 68 || troubled:
			cl.contend(ctx)
		case draw < 81 && cl.asks.IntN(3) == 0:
			cl.change(ctx, cl.patch(cl.pick()))
		case draw < 81:
			cl.change(ctx, cl.replacement())
		case draw < 92:
			cl.change(ctx, cl.deletion(cl.pick()))
		default:
			cl.get(ctx)
		}
		cl.move(ctx)
	}
}

// draw is a timer with a URL of its own.
func (cl *client) draw() timer.Timer {
	cl.writes++
	unique := fmt.Sprintf("%d-%d", cl.number, cl.writes)
	t := timer.Timer{
		ReplicationFactor: 1 + cl.r.IntN(3),
		Callback:          timer.Callback{URI: urlOf(cl.drawEndpoint(), unique), Opaque: "body of " + unique},
	}
	t.Tags = tagsOf(cl.writes)
	switch draw := cl.r.IntN(100); {
	case draw < 3 && cl.c.setting.spares > 0:
		t.Interval = lasting
	case draw < 20:
		t.Interval = cl.between(0, time.Second)
	case draw < 60:
		t.Interval = cl.between(time.Second, 15*time.Second)
	case draw < 75:
		t.Interval = cl.between(15*time.Second, longest)
	case draw < 80 && cl.c.setting.instants:
		t.At = time.Now().Add(cl.between(-time.Second, 20*time.Second)).Truncate(time.Millisecond)
	default:
		t.Interval = cl.between(timer.MinRecurringInterval, 8*time.Second)
		pops := min(2+cl.r.IntN(9), int(longest/t.Interval))
		t.RepeatFor = time.Duration(pops) * t.Interval
		if cl.c.setting.instants && cl.writes%5 == 0 {
			t.At = time.Now().Add(t.Interval * time.Duration(cl.writes%7) / 4).Truncate(time.Millisecond)
		}
	}
	cl.askFor(&t, unique)
	return t
}

// askFor has a timer in four ask for something itself.
func (cl *client) askFor(t *timer.Timer, unique string) {
	some := func(least, most time.Duration) time.Duration {
		return (least + time.Duration(cl.asks.Int64N(int64(most-least)))).Truncate(time.Millisecond)
	}
	switch draw := cl.asks.IntN(100); {
	case draw < 6:
		t.Callback.URI, t.Callback.Timeout = urlOf(atLength, unique), 10*time.Second
		t.Callback.Retry.Attempts = 2
	case draw < 8:
		t.Callback.Timeout = some(timer.MinTimeout, 2*time.Second)
	case draw < 14:
		t.ExpiresAfter = some(timer.MinExpiry, 20*time.Second)
	case draw < 20:
		t.Callback.Retry = timer.Retry{
			Attempts: 1 + cl.asks.IntN(6), First: some(timer.MinRetry, 2*time.Second), Factor: 1 + float64(cl.asks.IntN(2000))/1000, Longest: some(2*time.Second, 5*time.Second),
		}
	case draw < 25:
		t.Callback.URI += webhooktest.PutSuffix
		t.Callback.Method, t.Callback.Headers = http.MethodPut, "\r\n"+webhooktest.AskedHeader+": "+webhooktest.PutSuffix
	}
}

func (cl *client) between(least, most time.Duration) time.Duration {
	return between(cl.r, least, most)
}

func (cl *client) drawEndpoint() string {
	switch draw := cl.r.IntN(100); {
	case draw < 60:
		return promptly
	case draw < 75:
		return slowly
	case draw < 87:
		return flakily
	case draw < 93:
		return hanging
	case draw < 96:
		return never
	}
	return gone
}

func (cl *client) asked(t timer.Timer) *history.Asked {
	a := &history.Asked{
		IntervalMs: t.Interval.Milliseconds(), RepeatForMs: t.RepeatFor.Milliseconds(), Pops: t.Pops(), RF: t.ReplicationFactor,
		URL: t.Callback.URI, BodyHash: history.HashOf(t.Callback.Opaque),
		TimeoutMs: t.Callback.Timeout.Milliseconds(), ExpiresMs: t.ExpiresAfter.Milliseconds(),
	}
	if own := t.Callback.Retry; own != (timer.Retry{}) {
		a.Retry = history.Retry{Attempts: own.Attempts, FirstMs: own.First.Milliseconds(), Factor: own.Factor, LongestMs: own.Longest.Milliseconds()}
	}
	if !t.At.IsZero() {
		at := int64(t.At.Sub(cl.c.journal.start))
		a.AtNs = &at
	}
	return a
}

// request is a write of a client, and the record of the write.
type request struct {
	history.Operation
	id timer.ID                                                                               // of an existing timer
	do func(context.Context, *scheduler.Scheduler, *history.Operation) (timer.Receipt, error) // notes what a PATCH has read
}

func (cl *client) create(ctx context.Context) {
	t := cl.draw()
	receipt, ok := cl.write(ctx, request{
		Operation: history.Operation{Kind: history.Create, Timer: cl.asked(t)},
		do: func(ctx context.Context, s *scheduler.Scheduler, _ *history.Operation) (timer.Receipt, error) {
			return s.Create(ctx, t)
		},
	})
	if ok {
		cl.made = append(cl.made, receipt.ID)
	}
}

// createOnce creates with an idempotency key. Half of the time createOnce repeats the create through the same
// node, or through any node with -sim.apart. Two nodes cut off from each other's Redis make two timers of one
// idempotency key, and both timers are called: each node does without the Redis that the node does not reach.
// The doubles will end once nodes ask the other nodes before doing without a Redis.
func (cl *client) createOnce(ctx context.Context) {
	through := cl.choose(ctx, nil)
	t := cl.draw()
	key := fmt.Sprintf("once-%d-%d", cl.number, cl.writes)
	for {
		receipt, ok := cl.writeThrough(ctx, through, request{
			Operation: history.Operation{Kind: history.Create, Timer: cl.asked(t), IdempotencyKey: key},
			do: func(ctx context.Context, s *scheduler.Scheduler, _ *history.Operation) (timer.Receipt, error) {
				return s.CreateOnce(ctx, key, []byte(t.Callback.Opaque), t)
			},
		})
		if ok {
			cl.made = append(cl.made, receipt.ID)
		}
		if cl.r.IntN(2) == 0 || !awake.Sleep(ctx, cl.between(0, 3*time.Second)) {
			return
		}
		if cl.c.options.apart {
			through = cl.choose(ctx, nil)
		}
	}
}

// replacement is a PUT of an existing timer, or of a timer whose key the client chooses.
func (cl *client) replacement() request {
	id := cl.pick()
	if cl.r.IntN(6) == 0 {
		id = timer.ID{Key: fmt.Sprintf("own-%d-%d", cl.number, cl.writes+1)}
		cl.made = append(cl.made, id) // the timer may exist even if no answer says so
	}
	return cl.replacementOf(id, cl.draw())
}

func (cl *client) replacementOf(id timer.ID, t timer.Timer) request {
	cond, asks := cl.condition(id, true)
	return cl.replacementIf(id, t, cond, asks)
}

func (cl *client) replacementIf(id timer.ID, t timer.Timer, cond timer.Condition, asks string) request {
	if t.ReplicationFactor = id.RF; id.RF == 0 {
		t.ReplicationFactor = 0
	}
	return request{
		Operation: history.Operation{Kind: history.Replace, ID: id.String(), Key: id.Key, Timer: cl.asked(t), If: asks}, id: id,
		do: func(ctx context.Context, s *scheduler.Scheduler, _ *history.Operation) (timer.Receipt, error) {
			return s.ReplaceIf(ctx, id, t, cond)
		},
	}
}

// patch is a PATCH without timing: the timer calls another URL, with another body.
func (cl *client) patch(id timer.ID) request {
	cl.writes++
	unique, tags, elsewhere := fmt.Sprintf("%d-%d", cl.number, cl.writes), tagsOf(cl.writes), ""
	if cl.asks.IntN(2) == 0 {
		elsewhere = cl.drawEndpoint()
	}
	cond, asks := cl.condition(id, false)
	o := history.Operation{Kind: history.Patch, ID: id.String(), Key: id.Key, If: asks, Timer: &history.Asked{URL: urlOf("unread", unique)}}
	patch := func(t *timer.Timer) {
		_, path, _ := strings.Cut(t.Callback.URI, ".test/")
		endpoint, rest, _ := strings.Cut(path, "/")
		if t.Callback.Timeout == 0 && t.Callback.Method == "" && elsewhere != "" {
			endpoint = elsewhere
		}
		suffix := ""
		if strings.HasSuffix(rest, webhooktest.PutSuffix) {
			suffix = webhooktest.PutSuffix
		}
		t.Callback.URI, t.Callback.Opaque, t.Tags = urlOf(endpoint, unique)+suffix, "body of "+unique, tags
	}
	return request{Operation: o, id: id, do: func(ctx context.Context, s *scheduler.Scheduler, o *history.Operation) (timer.Receipt, error) {
		return s.Patch(ctx, id, cond, func(t *timer.Timer) (begins bool, err error) {
			o.Base = cl.asked(*t) // of the last try: earlier tries have done nothing
			patch(t)
			o.Timer = cl.asked(*t)
			return false, nil
		})
	}}
}

func (cl *client) deletion(id timer.ID) request {
	cond, asks := cl.condition(id, false)
	return request{
		Operation: history.Operation{Kind: history.Delete, ID: id.String(), Key: id.Key, If: asks}, id: id,
		do: func(ctx context.Context, s *scheduler.Scheduler, _ *history.Operation) (timer.Receipt, error) {
			return s.DeleteIf(ctx, id, cond)
		},
	}
}

// condition is the condition of one write in four, and how the history names the condition. Most ask for the
// version that the client heard of last.
func (cl *client) condition(id timer.ID, put bool) (cond timer.Condition, asks string) {
	version := cl.version(id)
	switch draw := cl.asks.IntN(100); {
	case draw < 18 && version != 0:
		return timer.Condition{OneOf: []timer.Version{version}}, version.String()
	case draw < 21:
		return timer.Condition{Exists: true}, "present"
	case draw < 25 && put:
		return timer.Condition{Absent: true}, "absent"
	}
	return timer.Condition{}, ""
}

// version is the version of a timer that an answer said last; 0 without an answer.
func (cl *client) version(id timer.ID) timer.Version {
	cl.heard.Lock()
	defer cl.heard.Unlock()
	return cl.versions[id.Key]
}

// hear notes the version of a timer from an answer.
func (cl *client) hear(key string, version timer.Version) {
	cl.heard.Lock()
	defer cl.heard.Unlock()
	cl.versions[key] = max(cl.versions[key], version)
}

// pick is one of the last few timers: most earlier timers are over.
func (cl *client) pick() timer.ID {
	const few = 8
	return cl.made[len(cl.made)-1-cl.r.IntN(min(few, len(cl.made)))]
}

func (cl *client) get(ctx context.Context) {
	id := cl.pick()
	o := history.Operation{Kind: history.Get, ID: id.String(), Key: id.Key}
	m := cl.choose(ctx, nil)
	if m == nil {
		return
	}
	cl.ask(m, &o, func(s *scheduler.Scheduler) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerWithin)
		defer cancel()
		found, err := s.Lookup(ctx, id)
		o.Outcome, o.Status = outcomeOf(err)
		switch {
		case errors.Is(err, timer.ErrNotFound):
			o.Outcome, o.Status = history.OK, http.StatusNotFound
		case err == nil:
			cl.hear(id.Key, found.Record.State.Written())
			o.Read = &history.Read{
				Seq: found.Record.State.Seq, State: stateOf(&found),
				URL: found.Record.Timer.Callback.URI, BodyHash: history.HashOf(found.Record.Timer.Callback.Opaque),
			}
		}
	})
	if o.Node != "" {
		cl.c.journal.operation(o)
	}
}

func stateOf(found *store.ReadResult) string {
	switch {
	case found.Leased:
		return "leased"
	case found.Record.State.Attempt > 0:
		return "retrying"
	}
	return "waiting"
}

// write asks a node for a write and records the outcome.
func (cl *client) write(ctx context.Context, q request) (receipt timer.Receipt, ok bool) {
	return cl.writeThrough(ctx, cl.choose(ctx, nil), q)
}

// writeThrough is write through the given node; nil means no node.
func (cl *client) writeThrough(ctx context.Context, m *machine, q request) (receipt timer.Receipt, ok bool) {
	if m == nil {
		return receipt, false
	}
	if receipt, ok = cl.perform(ctx, m, &q); q.Node != "" {
		cl.c.journal.operation(q.Operation)
	}
	return receipt, ok
}

// perform has a node carry out a write, and notes the outcome. If the node is down, the record names no node.
// perform draws none of the client's random numbers.
func (cl *client) perform(ctx context.Context, m *machine, q *request) (receipt timer.Receipt, ok bool) {
	heard := cl.ask(m, &q.Operation, func(s *scheduler.Scheduler) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerWithin)
		defer cancel()
		var err error
		receipt, err = q.do(ctx, s, &q.Operation)
		q.Outcome, q.Status = outcomeOf(err)
		if err == nil {
			q.Answer = answerOf(&receipt)
			cl.hear(receipt.ID.Key, receipt.Version)
		}
	})
	return receipt, heard && q.Outcome == history.OK
}

func answerOf(r *timer.Receipt) *history.Answer {
	a := &history.Answer{ID: r.ID.String(), Key: r.ID.Key, Copies: r.Copies, InFlight: r.InFlight, Unreached: r.Unreached, Version: r.Version.String()}
	if !r.Due.IsZero() {
		a.DueMs = r.Due.UnixMilli()
	}
	return a
}

// choose returns a node that is up, and if possible another node than the given node; nil when ctx ends.
func (cl *client) choose(ctx context.Context, than *machine) *machine {
	for tries := 0; ; tries++ {
		m := cl.c.machines[cl.r.IntN(len(cl.c.machines))]
		switch {
		case m.up() && (m != than || tries > len(cl.c.machines)):
			return m
		case tries >= len(cl.c.machines) && !awake.Sleep(ctx, 100*time.Millisecond):
			return nil
		}
	}
}

// ask asks a node, notes time and outcome, and reports whether the client heard an answer.
func (cl *client) ask(m *machine, o *history.Operation, do func(*scheduler.Scheduler)) bool {
	o.Node, o.InvokeNs = m.name, int64(cl.c.journal.now())
	heard, err := m.ask(func(s *scheduler.Scheduler) {
		o.InvokeNs = int64(cl.c.journal.now()) // the engine's time for an answer begins when a paused process wakes
		do(s)
	})
	if err != nil {
		o.Node = "" // the node was asked nothing
		return false
	}
	o.ReturnNs = int64(cl.c.journal.now())
	if !heard {
		o.ReturnNs, o.Outcome, o.Status, o.Answer, o.Read = -1, history.Unknown, 0, nil, nil
	}
	return heard
}

// outcomeOf translates an error as the HTTP edge does.
func outcomeOf(err error) (history.Outcome, int) {
	_, invalid := errors.AsType[*timer.InvalidError](err)
	_, unmet := errors.AsType[*timer.ConditionError](err)
	switch {
	case err == nil:
		return history.OK, http.StatusOK
	case invalid:
		return history.Failed, http.StatusBadRequest
	case unmet:
		return history.Failed, http.StatusPreconditionFailed
	case errors.Is(err, timer.ErrKeyReused):
		return history.Failed, http.StatusUnprocessableEntity
	case errors.Is(err, timer.ErrNotFound):
		return history.Failed, http.StatusNotFound
	case errors.Is(err, timer.ErrFiring):
		return history.Failed, http.StatusConflict
	case errors.Is(err, timer.ErrOvertaken):
		return history.Unknown, http.StatusConflict
	}
	return history.Unknown, http.StatusServiceUnavailable
}
