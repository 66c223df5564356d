package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"chronos/loadtest/check"
)

const (
	answerLimit  = 2 * time.Second // after this time, the server takes a callback for failed
	maxGrace     = time.Minute
	defaultGrace = 3 * time.Second
	stopLimit    = 2 * time.Second
	maxBody      = 16 << 20
)

// server receives callbacks, and lets the checker judge the callbacks.
type server struct {
	options options
	checker *check.Checker
	journal *journal

	printing sync.Mutex
	out      io.Writer

	stopping chan struct{}      // closed by serve; ends waits in handlers
	finished chan *check.Report // the report in the answer to /control/finish
	finish   sync.Once
}

func newServer(o options, out io.Writer) *server {
	return &server{
		options: o, checker: check.New(o.checker), out: out,
		stopping: make(chan struct{}), finished: make(chan *check.Report, 1),
	}
}

// serve answers requests until ctx ends or a finish has been answered, and returns the report. serve closes the
// listener.
func (s *server) serve(ctx context.Context, listener net.Listener) (*check.Report, error) {
	web := &fasthttp.Server{
		Handler: s.handle, Name: "receiver", NoDefaultDate: true,
		ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxRequestBodySize: maxBody,
	}
	served := make(chan error, 1)
	go func() { served <- web.Serve(listener) }()
	var report *check.Report
	select {
	case err := <-served:
		return nil, fmt.Errorf("serve: %w", err)
	case report = <-s.finished:
	case <-ctx.Done():
		report = s.report()
	}
	close(s.stopping)
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer cancel()
	// If a connection is busy beyond the limit, the end of the process cuts the connection: the report is made.
	_ = web.ShutdownWithContext(ending)
	return report, nil
}

func (s *server) report() *check.Report {
	report := s.checker.Report(time.Now(), s.options.minCallbacks)
	return &report
}

func (s *server) handle(ctx *fasthttp.RequestCtx) {
	arrived := time.Now()
	path := ctx.Path()
	if !bytes.HasPrefix(path, []byte("/control/")) {
		s.callback(ctx, arrived)
		return
	}
	switch string(ctx.Method()) + " " + string(path) {
	case "POST /control/expect":
		s.expect(ctx)
	case "GET /control/live":
		s.live(ctx)
	case "GET /control/report":
		answer(ctx, s.report())
	case "POST /control/finish":
		s.end(ctx)
	default:
		ctx.Error("no such request", fasthttp.StatusNotFound)
	}
}

func (s *server) callback(ctx *fasthttp.RequestCtx, arrived time.Time) {
	header := &ctx.Request.Header
	cb, why := check.Parse(string(ctx.Path()), check.Headers{
		TimerID:   string(header.Peek("X-Chronos-Timer")),
		WebhookID: string(header.Peek("webhook-id")),
		Sequence:  string(header.Peek("X-Sequence-Number")),
		Attempt:   string(header.Peek("X-Chronos-Attempt")),
		Due:       string(header.Peek("X-Chronos-Due")),
	})
	if why == nil && !ctx.IsPost() {
		why = fmt.Errorf("method %q is not POST", ctx.Method())
	}
	cb.Arrived, cb.Body = arrived, ctx.PostBody()
	fail := s.options.failPercent > 0 && rand.Float64()*100 < s.options.failPercent
	cb.Accepted = !fail && s.options.delay < answerLimit
	s.checker.Arrive(&cb, why)
	if s.options.print {
		s.print(&cb, why)
	}
	if s.options.delay > 0 {
		s.wait(s.options.delay)
	}
	status := fasthttp.StatusOK
	if fail {
		status = fasthttp.StatusInternalServerError
		ctx.Error("failing as asked", status)
	}
	s.journal.callback(&cb, string(ctx.Path()), string(header.Peek("webhook-id")), ctx.PostBody(), status)
}

// wait waits for the time d, or less when the server stops.
func (s *server) wait(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.stopping:
	}
}

// expect takes operations, a JSON object after another, up to the first refused operation.
func (s *server) expect(ctx *fasthttp.RequestCtx) {
	decoder := json.NewDecoder(bufio.NewReader(bytes.NewReader(ctx.PostBody())))
	for {
		var op check.Operation
		err := decoder.Decode(&op)
		if errors.Is(err, io.EOF) {
			return
		}
		if err == nil {
			if err = s.checker.Tell(op); err == nil {
				s.journal.operation(&op)
			}
		}
		if err != nil {
			ctx.Error(err.Error(), fasthttp.StatusBadRequest)
			return
		}
	}
}

// liveTimer is an element of the answer to /control/live.
type liveTimer struct {
	Session  string `json:"session"`
	ID       string `json:"id"`
	Revision int    `json:"revision"`
}

func (s *server) live(ctx *fasthttp.RequestCtx) {
	timers := []liveTimer{}
	s.checker.Live(func(session, id string, revision int) {
		timers = append(timers, liveTimer{session, id, revision})
	})
	answer(ctx, timers)
}

// end goes on receiving for the grace: callbacks that are under way, or were not called off, can still come.
func (s *server) end(ctx *fasthttp.RequestCtx) {
	grace := defaultGrace
	if text := ctx.QueryArgs().Peek("grace"); len(text) > 0 {
		var err error
		if grace, err = time.ParseDuration(string(text)); err != nil || grace < 0 || grace > maxGrace {
			ctx.Error(fmt.Sprintf("grace must be a duration of at most %s", maxGrace), fasthttp.StatusBadRequest)
			return
		}
	}
	first := false
	s.finish.Do(func() { first = true })
	if !first {
		ctx.Error("already finishing", fasthttp.StatusConflict)
		return
	}
	s.wait(grace)
	report := s.report()
	answer(ctx, report)
	ctx.SetConnectionClose()
	s.finished <- report
}

func answer(ctx *fasthttp.RequestCtx, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		ctx.Error(err.Error(), fasthttp.StatusInternalServerError)
		return
	}
	ctx.SetContentType("application/json")
	ctx.SetBody(body)
}

const (
	printedBody = 100 // bytes
	clock       = "15:04:05.000"
)

func (s *server) print(cb *check.Callback, why error) {
	var line string
	if why == nil {
		body, more := cb.Body, ""
		if len(body) > printedBody {
			body, more = body[:printedBody], "…"
		}
		line = fmt.Sprintf("timer %s sequence %d attempt %d due %s late %.1f ms body %q%s", cb.TimerID, cb.Sequence,
			cb.Attempt, cb.Due.Local().Format(clock), float64(cb.Lateness())/float64(time.Millisecond), body, more)
	} else {
		line = "no callback of a timer: " + why.Error()
	}
	s.printing.Lock()
	defer s.printing.Unlock()
	_, _ = fmt.Fprintln(s.out, cb.Arrived.Format(clock), line)
}
