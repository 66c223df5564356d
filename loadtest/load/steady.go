package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"chronos/api/client"
	"chronos/loadtest/check"
	"chronos/scheduler/awake"
)

// The scenario "steady" creates one-shot timers at a constant rate. All timers have the same interval, so callbacks are
// fired at the same rate. The scenario measures lateness with little work beside: k6 takes most of a core.
const (
	steadyInterval = 2500 * time.Millisecond
	steadySenders  = 64
	steadyTold     = 20 // operations in a request to the receiver
	steadyOpaque   = 100
)

// steady is a run of the scenario. The load is open: the time of a create counts from the instant at which the create
// should have been sent.
type steady struct {
	options  *options
	timers   *client.Client
	receiver string
	control  fasthttp.Client // to the receiver

	mu     sync.Mutex
	took   []float64 // ms
	failed []error
}

// creation is a timer to create, with the instant.
type creation struct {
	number int
	at     time.Time
}

func runSteady(ctx context.Context, o *options, nodeURL, receiverURL string) (summary, error) {
	timers, err := client.New(nodeURL, client.WithTries(1)) // a create that needs a second try counts as failed
	if err != nil {
		return summary{}, err
	}
	defer timers.Close()
	s := &steady{options: o, timers: timers, receiver: receiverURL}
	defer s.control.CloseIdleConnections()
	todo := make(chan creation, o.rate) // the creations of a second may wait
	var senders sync.WaitGroup
	for range steadySenders {
		senders.Go(func() { s.send(ctx, todo) })
	}
	s.schedule(ctx, todo)
	close(todo)
	senders.Wait()
	// Wait until the last timer is due. The receiver's grace follows.
	if !pause(ctx, time.Now().Add(steadyInterval)) {
		return summary{}, ctx.Err()
	}
	return s.summary(), errors.Join(s.failed[:min(len(s.failed), 5)]...)
}

// schedule hands out each creation at its instant.
func (s *steady) schedule(ctx context.Context, todo chan<- creation) {
	begin := time.Now()
	for n := range int(s.options.duration.Seconds() * float64(s.options.rate)) {
		at := begin.Add(time.Duration(n) * time.Second / time.Duration(s.options.rate))
		if !pause(ctx, at) {
			return
		}
		todo <- creation{number: n, at: at}
	}
}

// pause waits until an instant and reports whether ctx lasted.
func pause(ctx context.Context, until time.Time) bool {
	wait := time.Until(until)
	if wait <= 0 {
		return ctx.Err() == nil
	}
	return awake.Sleep(ctx, wait)
}

func (s *steady) send(ctx context.Context, todo <-chan creation) {
	var told []check.Operation
	for c := range todo {
		op, err := s.create(ctx, c.number)
		s.note(time.Since(c.at), err)
		if told = append(told, op); len(told) == steadyTold {
			s.tell(told)
			told = told[:0]
		}
	}
	s.tell(told)
}

func (s *steady) note(took time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.took = append(s.took, float64(took.Microseconds())/1000)
	if err != nil {
		s.failed = append(s.failed, err)
	}
}

func (s *steady) create(ctx context.Context, number int) (check.Operation, error) {
	session := "steady-" + strconv.Itoa(number)
	opaque := strings.Repeat("x", steadyOpaque-len(session)) + session
	op := check.Operation{
		Session: session, Revision: 1, Op: check.Create, IntervalMs: steadyInterval.Milliseconds(), Pops: 1, Body: opaque,
		SentMs: time.Now().UnixMilli(),
	}
	receipt, err := s.timers.Create(ctx, client.Timer{Interval: steadyInterval, URI: s.receiver + "/cb/" + session + "/1", Opaque: opaque})
	op.AnsweredMs = time.Now().UnixMilli()
	op.ID, op.OK = receipt.ID, err == nil
	return op, err
}

// tell makes operations known to the receiver.
func (s *steady) tell(told []check.Operation) {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	for i := range told {
		if err := encoder.Encode(&told[i]); err != nil {
			s.note(0, err)
		}
	}
	if body.Len() == 0 {
		return
	}
	if status, raw, err := s.post(s.receiver+"/control/expect", body.Bytes()); err != nil || status != http.StatusOK {
		s.note(0, fmt.Errorf("tell receiver: status %d, %w: %s", status, err, raw))
	}
}

func (s *steady) post(url string, body []byte) (status int, answer []byte, err error) {
	req, res := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(res)
	req.SetRequestURI(url)
	req.Header.SetMethod(http.MethodPost)
	req.Header.SetContentType("application/json")
	req.SetBodyRaw(body)
	if err := s.control.DoTimeout(req, res, 10*time.Second); err != nil {
		return 0, nil, fmt.Errorf("post: %w", err)
	}
	return res.StatusCode(), bytes.Clone(res.Body()), nil
}

// summary names the figures as k6 does.
func (s *steady) summary() summary {
	slices.Sort(s.took)
	at := func(q float64) float64 { return s.took[int(q*float64(len(s.took)-1))] }
	return summary{Metrics: map[string]metric{
		"operations{op:create}":      {figures: map[string]float64{"count": float64(len(s.took))}},
		"http_req_failed{op:create}": {figures: map[string]float64{"passes": float64(len(s.failed))}},
		"http_req_duration{op:create}": {figures: map[string]float64{
			"med": at(.5), "p(90)": at(.9), "p(99)": at(.99), "p(99.9)": at(.999), "max": at(1),
		}},
	}}
}
