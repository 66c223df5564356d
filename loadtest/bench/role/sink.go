package role

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"chronos/loadtest/bench/figure"
)

const (
	dueHeader = "X-Chronos-Due"
	slowness  = 1500 * time.Millisecond
	maxRound  = 10_000_000
)

// sink is the receiver of callbacks, as cheap as possible. The number at the end of the path tells
// callbacks apart. POST /control/expect?n=… begins a new round with n expected callbacks. GET
// /control/count returns the number of callbacks that have come. GET /control/report returns the
// whole report.
type sink struct {
	round    atomic.Pointer[round]
	stopping chan struct{}
}

// round has a place for each expected callback.
type round struct {
	callbacks                        []callback
	count                            atomic.Int64
	doubled, early, unknown, undated atomic.Int64
}

type callback struct {
	arrived atomic.Int64 // ns since 1970, 0 for not yet
	late    atomic.Int64 // ns
	slow    atomic.Bool
}

// Report is the result of a round.
type Report struct {
	Expected int   `json:"expected"`
	Missing  int   `json:"missing"`
	Doubled  int64 `json:"doubled"` // callbacks beyond the first of a timer
	Early    int64 `json:"early"`
	Unknown  int64 `json:"unknown"` // callbacks without an expected number
	Undated  int64 `json:"undated"` // callbacks without a due time

	FirstMs  int64   `json:"first_ms"`  // since 1970
	SpanMs   float64 `json:"span_ms"`   // from the first to the last
	Span99Ms float64 `json:"span99_ms"` // from the first until 99 % were there

	Fast Lateness `json:"fast"`
	Slow Lateness `json:"slow"` // of callbacks at the slow endpoint
}

// Lateness sums up the times from the due times of callbacks to the arrivals.
type Lateness struct {
	Count  int     `json:"count"`
	P50Ms  float64 `json:"p50_ms"`
	P99Ms  float64 `json:"p99_ms"`
	P999Ms float64 `json:"p999_ms"`
	MaxMs  float64 `json:"max_ms"`
}

func runSink(ctx context.Context, o options) (any, error) {
	s := &sink{stopping: make(chan struct{})}
	s.round.Store(&round{})
	served := make(chan error, 2)
	servers := []*fasthttp.Server{{Handler: s.handle}, {Handler: s.handleSlowly}}
	for i, address := range []string{o.listen, o.slow} {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if err != nil {
			return nil, fmt.Errorf("listen: %w", err)
		}
		web := servers[i]
		web.NoDefaultDate, web.NoDefaultServerHeader = true, true
		web.ReadTimeout, web.IdleTimeout = time.Minute, time.Minute
		go func() { served <- web.Serve(listener) }()
	}
	var err error
	select {
	case err = <-served:
	case <-ctx.Done():
	}
	close(s.stopping)
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	for _, web := range servers {
		_ = web.ShutdownWithContext(ending) // the end of the process cuts the remaining connections
	}
	return nil, err
}

func (s *sink) handle(ctx *fasthttp.RequestCtx) {
	path := ctx.Path()
	if len(path) > 2 && path[1] == 'c' {
		s.control(ctx)
		return
	}
	s.arrive(ctx, false)
}

func (s *sink) handleSlowly(ctx *fasthttp.RequestCtx) {
	s.arrive(ctx, true)
	timer := time.NewTimer(slowness)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.stopping:
	}
}

func (s *sink) arrive(ctx *fasthttp.RequestCtx, slow bool) {
	now, r := time.Now(), s.round.Load()
	n, ok := number(ctx.Path())
	if !ok || n >= len(r.callbacks) {
		r.unknown.Add(1)
		return
	}
	c := &r.callbacks[n]
	if !c.arrived.CompareAndSwap(0, now.UnixNano()) {
		r.doubled.Add(1)
		return
	}
	c.slow.Store(slow)
	due, err := time.Parse(time.RFC3339, string(ctx.Request.Header.Peek(dueHeader)))
	late := now.Sub(due)
	switch {
	case err != nil:
		r.undated.Add(1)
	case late < 0:
		r.early.Add(1)
		c.late.Store(int64(late))
	default:
		c.late.Store(int64(late))
	}
	r.count.Add(1)
}

// number is the number after the last slash.
func number(path []byte) (int, bool) {
	digits := path[bytes.LastIndexByte(path, '/')+1:]
	if len(digits) == 0 || len(digits) > 9 {
		return 0, false
	}
	n := 0
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}

func (s *sink) control(ctx *fasthttp.RequestCtx) {
	var said any
	switch string(ctx.Path()) {
	case "/control/expect":
		n, err := ctx.QueryArgs().GetUint("n")
		if err != nil || n > maxRound {
			ctx.Error("n must be a number up to "+strconv.Itoa(maxRound), fasthttp.StatusBadRequest)
			return
		}
		s.round.Store(&round{callbacks: make([]callback, n)})
	case "/control/count":
		said = s.round.Load().count.Load()
	case "/control/report":
		said = s.round.Load().report()
	default:
		ctx.Error("no such request", fasthttp.StatusNotFound)
		return
	}
	body, err := json.Marshal(said)
	if err != nil {
		ctx.Error(err.Error(), fasthttp.StatusInternalServerError)
		return
	}
	ctx.SetBody(body)
}

// report may run while callbacks come; then the report may lack a few callbacks.
func (r *round) report() *Report {
	report := &Report{
		Expected: len(r.callbacks), Doubled: r.doubled.Load(), Early: r.early.Load(), Unknown: r.unknown.Load(), Undated: r.undated.Load(),
	}
	var arrived, fast, slow []time.Duration
	for i := range r.callbacks {
		c := &r.callbacks[i]
		at := c.arrived.Load()
		if at == 0 {
			continue
		}
		arrived = append(arrived, time.Duration(at))
		if c.slow.Load() {
			slow = append(slow, time.Duration(c.late.Load()))
		} else {
			fast = append(fast, time.Duration(c.late.Load()))
		}
	}
	report.Missing = len(r.callbacks) - len(arrived)
	slices.Sort(arrived)
	if len(arrived) > 0 {
		first := arrived[0]
		report.FirstMs = first.Milliseconds()
		report.SpanMs = figure.Ms(arrived[len(arrived)-1] - first)
		report.Span99Ms = figure.Ms(figure.Quantile(arrived, .99) - first)
	}
	report.Fast, report.Slow = lateness(fast), lateness(slow)
	return report
}

func lateness(late []time.Duration) Lateness {
	slices.Sort(late)
	return Lateness{
		Count: len(late), P50Ms: figure.Ms(figure.Quantile(late, .5)), P99Ms: figure.Ms(figure.Quantile(late, .99)),
		P999Ms: figure.Ms(figure.Quantile(late, .999)), MaxMs: figure.Ms(figure.Quantile(late, 1)),
	}
}

// Wrong describes the faults; nil if all is well.
func (r *Report) Wrong() error {
	if r.Missing == 0 && r.Doubled == 0 && r.Early == 0 && r.Unknown == 0 && r.Undated == 0 {
		return nil
	}
	return fmt.Errorf("of %d callbacks missing %d, doubled %d, early %d, unknown %d, undated %d",
		r.Expected, r.Missing, r.Doubled, r.Early, r.Unknown, r.Undated)
}
