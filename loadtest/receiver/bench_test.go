package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"chronos/loadtest/check"
)

// BenchmarkCallback measures the cost of judging a callback in the receiver, without the network.
func BenchmarkCallback(b *testing.B) {
	const timers = 1000
	s := newServer(options{check: true, checker: check.Config{Planned: true}}, io.Discard)
	now := time.Now()
	for i := range timers {
		op := check.Operation{
			Session: strconv.Itoa(i), Revision: 1, Op: check.Create, ID: fmt.Sprintf("%032x-2-00000000000000ff", i), OK: true,
			SentMs: now.UnixMilli(), AnsweredMs: now.UnixMilli(), Pops: check.MaxPops, Body: "body",
		}
		line, err := json.Marshal(op)
		if err != nil {
			b.Fatal(err)
		}
		ctx := request("/control/expect", string(line))
		if s.handle(ctx); ctx.Response.StatusCode() != fasthttp.StatusOK {
			b.Fatal(string(ctx.Response.Body()))
		}
	}
	due := now.UTC().Format("2006-01-02T15:04:05.000Z")
	b.ReportAllocs()
	ctx := request("", "body")
	header := &ctx.Request.Header
	header.Set("X-Chronos-Attempt", "1")
	header.Set("X-Chronos-Due", due)
	for i := 0; b.Loop(); i++ {
		timer, sequence := i%timers, i/timers%check.MaxPops+1
		ctx.Request.SetRequestURI(check.CallbackPath(strconv.Itoa(timer), 1))
		header.Set("X-Sequence-Number", strconv.Itoa(sequence))
		header.Set("X-Chronos-Timer", fmt.Sprintf("%032x-2-00000000000000ff", timer))
		header.Set("webhook-id", fmt.Sprintf("%032x.v.%d", timer, sequence))
		s.handle(ctx)
	}
	if r := s.checker.Report(now, 0); r.Violations[check.Unasked]+r.Violations[check.Altered] > 0 {
		b.Fatal(r.Examples)
	}
}

func request(path, body string) *fasthttp.RequestCtx {
	ctx := &fasthttp.RequestCtx{}
	ctx.Request.Header.SetMethod("POST")
	ctx.Request.SetRequestURI(path)
	ctx.Request.SetBodyString(body)
	return ctx
}
