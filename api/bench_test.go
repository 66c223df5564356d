package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"chronos/api/apitest"
	"chronos/api/tokens"
	"chronos/scheduler/timer"
)

// A request from its headers to its answer, without the network and the scheduler.
func BenchmarkPost(b *testing.B) {
	receipt := timer.Receipt{ID: timer.ID{Key: strings.Repeat("0", 32), RF: 2, Hint: 7}, Due: time.UnixMilli(1e12), Copies: 2}
	handler := New(Config{Timers: constantTimers{receipt}}).app.Server().Handler
	var rc fasthttp.RequestCtx
	rc.Request.Header.SetMethod("POST")
	rc.Request.SetRequestURI("/timers")
	rc.Request.SetBodyString(apitest.Typical)
	b.ReportAllocs()
	for b.Loop() {
		rc.Response.Reset()
		if handler(&rc); rc.Response.StatusCode() != fasthttp.StatusOK {
			b.Fatalf("have %d %s", rc.Response.StatusCode(), rc.Response.Body())
		}
	}
}

// A request with a token, from its headers to its answer: a token without a prefix costs no allocation.
func BenchmarkAuthorizedPost(b *testing.B) {
	receipt := timer.Receipt{ID: timer.ID{Key: strings.Repeat("0", 32), RF: 2, Hint: 7}, Due: time.UnixMilli(1e12), Copies: 2}
	s, byRole := guarded(b, constantTimers{receipt})
	handler := s.app.Server().Handler
	var rc fasthttp.RequestCtx
	rc.Request.Header.SetMethod("POST")
	rc.Request.Header.Set("Authorization", "Bearer "+byRole[tokens.Write])
	rc.Request.SetRequestURI("/timers")
	rc.Request.SetBodyString(apitest.Typical)
	b.ReportAllocs()
	for b.Loop() {
		rc.Response.Reset()
		if handler(&rc); rc.Response.StatusCode() != fasthttp.StatusOK {
			b.Fatalf("have %d %s", rc.Response.StatusCode(), rc.Response.Body())
		}
	}
}

// A batch from its headers to its answer, without the network and the scheduler.
func BenchmarkPostBatch(b *testing.B) {
	receipt := timer.Receipt{ID: timer.ID{Key: strings.Repeat("0", 32), RF: 2, Hint: 7}, Due: time.UnixMilli(1e12), Copies: 2}
	handler := New(Config{Timers: constantTimers{receipt}}).app.Server().Handler
	const least = `{"timing":{"interval":30},"callback":{"http":{"uri":"http://10.0.0.17:8080/cb","opaque":"id-17"}}}`
	for _, n := range []int{1, 100, 1000} {
		for name, entry := range map[string]string{"least": least, "typical": apitest.Typical} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				var rc fasthttp.RequestCtx
				rc.Request.Header.SetMethod("POST")
				rc.Request.SetRequestURI("/timers/batch")
				body := []byte(apitest.TimersOf(n, entry))
				b.ReportAllocs()
				for b.Loop() {
					rc.Response.Reset()
					rc.Request.SetBodyRaw(body)
					if handler(&rc); rc.Response.StatusCode() != fasthttp.StatusOK {
						b.Fatalf("have %d %s", rc.Response.StatusCode(), rc.Response.Body())
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/timer")
			})
		}
	}
}
