package processtest

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"chronos/scheduler/awake"
	"chronos/scheduler/verify/history"
	"chronos/scheduler/verify/testkit"
	"chronos/scheduler/webhook/webhooktest"
)

// mix is the composition of the load; shares are shares of all timers.
type mix struct {
	rate                         int // timers a second
	recurring, deletes, replaces float64
	gets                         float64
	members                      float64       // shares of timers of the second format, while load.members is set
	waiting                      float64       // share of timers that are due long after the run
	conditions                   float64       // share of updates and deletes of the version that was answered, and of no other
	longest                      time.Duration // interval of a one-shot timer
	longestRecurring             time.Duration // interval of a recurring timer
}

const (
	shortest          = 500 * time.Millisecond
	shortestRecurring = 2 * time.Second
	recurringPops     = 3
	waitingFor        = time.Hour
	// ownKeys is the share of timers with a key that the client chooses. A PUT goes to its
	// owners in any state of their Redis, but the keys of a POST avoid an unhealthy Redis.
	ownKeys = 0.5
)

// load is an open loop: timers are created at a fixed rate, however long the answers take. The
// goroutine that creates a timer also makes the later requests for the timer, in turn.
type load struct {
	t        *testing.T
	mix      mix
	cluster  *cluster
	journal  *journal
	receiver string // its URL
	http     *http.Client
	seed     uint64

	wg      sync.WaitGroup
	members atomic.Bool // all nodes are upgraded, and read the second format
	writes  atomic.Int64
	lastDue atomic.Int64 // ns of the journal: all requested pops are due by then
}

// start begins to create timers; stop ends the creating, and waits until all requests are over.
func (l *load) start() (stop func()) {
	ctx, cancel := context.WithCancel(l.t.Context())
	l.wg.Go(func() { l.create(ctx) })
	stop = func() {
		cancel()
		l.wg.Wait()
	}
	l.t.Cleanup(stop) // if the test ends early
	return stop
}

func (l *load) create(ctx context.Context) {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	begun := time.Now()
	for n := uint64(0); ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for ; n < uint64(time.Since(begun).Seconds()*float64(l.mix.rate)); n++ {
			r := rand.New(rand.NewPCG(l.seed, n))
			l.wg.Go(func() { l.timer(ctx, r) })
		}
	}
}

// timer creates a timer, and makes random later requests for the timer.
func (l *load) timer(ctx context.Context, r *rand.Rand) {
	asked := l.draw(r)
	kind, key := history.Create, ""
	if r.Float64() < ownKeys {
		kind, key = history.Replace, "own"+asked.URL[strings.LastIndexByte(asked.URL, '/')+1:]
	}
	made := l.send(kind, key, asked, r, needsUpgrade(asked), "")
	if made.Outcome != history.OK {
		return
	}
	what := history.Get
	switch share := r.Float64(); {
	case share < l.mix.deletes:
		what = history.Delete
	case share < l.mix.deletes+l.mix.replaces:
		what = history.Replace
	case share >= l.mix.deletes+l.mix.replaces+l.mix.gets:
		return
	}
	span := time.Duration(asked.IntervalMs) * time.Millisecond
	if asked.Pops > 1 {
		span *= 2
	}
	if waits(asked) {
		span = l.mix.longest
	}
	if !awake.Sleep(ctx, time.Duration(r.Float64()*1.02*float64(span))) {
		return
	}
	id, upgraded := made.Answer.ID, needsUpgrade(asked)
	cond := ""
	if what != history.Get && r.Float64() < l.mix.conditions {
		cond = made.Answer.Version
	}
	switch what {
	case history.Replace:
		next := l.draw(r)
		upgraded = upgraded || needsUpgrade(next)
		if put := l.send(history.Replace, id, next, r, upgraded, cond); put.Outcome == history.OK {
			id = put.Answer.ID
		}
	default:
		l.send(what, id, nil, r, upgraded, cond)
	}
	if what != history.Get && r.Float64() < 0.3 {
		l.send(history.Get, id, nil, r, upgraded, "")
	}
}

// needsUpgrade reports whether a timer has members that only upgraded nodes know.
func needsUpgrade(asked *history.Asked) bool {
	return strings.HasSuffix(asked.URL, webhooktest.PutSuffix)
}

// draw is a random timer with its own URL and body.
func (l *load) draw(r *rand.Rand) *history.Asked {
	n := strconv.FormatInt(l.writes.Add(1), 10)
	if l.members.Load() && r.Float64() < l.mix.members {
		n += webhooktest.PutSuffix
	}
	asked := &history.Asked{URL: l.receiver + "/" + n, BodyHash: history.HashOf("body of " + n), Pops: 1}
	if l.mix.waiting > 0 && r.Float64() < l.mix.waiting {
		asked.IntervalMs = waitingFor.Milliseconds()
		return asked
	}
	from, to := shortest, l.mix.longest
	if r.Float64() < l.mix.recurring {
		from, to, asked.Pops = shortestRecurring, l.mix.longestRecurring, recurringPops
	}
	asked.IntervalMs = (from + time.Duration(r.Int64N(int64(to-from)))).Milliseconds()
	if asked.Pops > 1 {
		asked.RepeatForMs = int64(asked.Pops) * asked.IntervalMs
	}
	return asked
}

// waits reports whether a timer is due long after the run.
func waits(asked *history.Asked) bool { return asked.IntervalMs >= waitingFor.Milliseconds() }

func bodyOf(asked *history.Asked) string {
	n := asked.URL[strings.LastIndex(asked.URL, "/")+1:]
	repeat, members := "", ""
	if asked.RepeatForMs > 0 {
		repeat = fmt.Sprintf(`,"repeat-for":%.3f`, float64(asked.RepeatForMs)/1000)
	}
	if needsUpgrade(asked) {
		members = fmt.Sprintf(`,"method":%q,"headers":{%q:%q}`, http.MethodPut, webhooktest.AskedHeader, webhooktest.PutSuffix)
	}
	return fmt.Sprintf(`{"timing":{"interval":%.3f%s},"callback":{"http":{"uri":%q,"opaque":%q%s}}}`,
		float64(asked.IntervalMs)/1000, repeat, asked.URL, "body of "+n, members)
}

// send makes a request to a random node, of all or of the upgraded nodes, and records the request. cond is the version that the
// timer must have; "" for any version.
func (l *load) send(kind history.Kind, id string, asked *history.Asked, r *rand.Rand, upgraded bool, cond string) history.Operation {
	node, url := l.cluster.pick(r, upgraded)
	method, body := map[history.Kind]string{
		history.Create: http.MethodPost, history.Replace: http.MethodPut, history.Delete: http.MethodDelete, history.Get: http.MethodGet,
	}[kind], ""
	url += "/timers"
	if id != "" {
		url += "/" + id
	}
	if asked != nil {
		body = bodyOf(asked)
	}
	var headers []string
	if cond != "" {
		headers = []string{"If-Match", `"` + cond + `"`}
	}
	o := history.Operation{Kind: kind, Node: node, ID: id, Timer: asked, If: cond, ReturnNs: -1, Outcome: history.Unknown}
	o.Key, _, _ = strings.Cut(id, "-")
	o.InvokeNs = l.journal.now()
	if got, err := testkit.Ask(l.http, method, url, body, headers...); err == nil {
		l.answer(&o, got)
	}
	if asked != nil && !waits(asked) {
		due := max(o.ReturnNs, l.journal.now()) + asked.IntervalMs*int64(asked.Pops)*int64(time.Millisecond)
		for last := l.lastDue.Load(); due > last && !l.lastDue.CompareAndSwap(last, due); last = l.lastDue.Load() {
		}
	}
	l.journal.operation(o)
	return o
}

// answer notes the answer to a request.
func (l *load) answer(o *history.Operation, got testkit.Answer) {
	o.ReturnNs, o.Status = l.journal.now(), got.Status
	switch {
	case o.Kind == history.Get && o.Status == http.StatusNotFound:
		o.Outcome = history.OK
	case o.Status >= http.StatusInternalServerError, o.Status == http.StatusTooManyRequests:
	case o.Status == http.StatusPreconditionFailed: // the timer may be over; judged if not
		o.Outcome = history.Failed
	case o.Status == http.StatusConflict: // overtaken: the write may have been in force for a moment
	case o.Status >= http.StatusBadRequest:
		o.Outcome = history.Failed
		l.t.Errorf("%s of %q was refused: %d %s", o.Kind, o.ID, o.Status, got.Header.Get("Reason"))
	default:
		o.Outcome = history.OK
		if err := readAnswer(o, got.Header, []byte(got.Body)); err != nil {
			l.t.Errorf("answer to a %s: %v: %s", o.Kind, err, got.Body)
		}
	}
}

func readAnswer(o *history.Operation, header http.Header, raw []byte) error {
	var said struct {
		ID       string    `json:"id"`
		Key      string    `json:"key"`
		Due      time.Time `json:"due"`
		Copies   int       `json:"copies"`
		State    string    `json:"state"`
		Sequence int       `json:"sequence"`
		Callback struct {
			HTTP struct {
				URI    string `json:"uri"`
				Opaque string `json:"opaque"`
			} `json:"http"`
		} `json:"callback"`
	}
	if o.Kind != history.Delete {
		if err := json.Unmarshal(raw, &said); err != nil {
			return err
		}
	}
	if o.Kind == history.Get {
		call := &said.Callback.HTTP
		o.Read = &history.Read{Seq: said.Sequence, State: said.State, URL: call.URI, BodyHash: history.HashOf(call.Opaque)}
		return nil
	}
	o.Answer = &history.Answer{
		ID: said.ID, Key: said.Key, Version: strings.Trim(header.Get("ETag"), `"`), Copies: said.Copies, InFlight: header.Get("X-Chronos-In-Flight") == "true",
	}
	if !said.Due.IsZero() {
		o.Answer.DueMs = said.Due.UnixMilli()
	}
	if n := header.Get("X-Chronos-Sites"); n != "" {
		told, all := 0, 0
		if _, err := fmt.Sscanf(n, "%d/%d", &told, &all); err != nil {
			return fmt.Errorf("sites %q: %w", n, err)
		}
		o.Answer.Untold = all - told
	}
	if n := header.Get("X-Chronos-Unreached"); n != "" {
		var err error
		o.Answer.Unreached, err = strconv.Atoi(n)
		return err
	}
	return nil
}
