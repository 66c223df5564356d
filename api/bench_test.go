package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"chronos/scheduler/timer"
)

const typicalBody = `{"timing":{"interval":30,"repeat-for":600},"callback":{"http":{"uri":"http://10.0.0.17:8080/callbacks/registration","opaque":"{\"aor\":\"sip:6505551234@example.com\",\"n\":17}"}},"reliability":{"replication-factor":2},"statistics":{"tag-info":[{"type":"REG","count":1}]}}`

func BenchmarkDecode(b *testing.B) {
	for name, body := range map[string]string{
		"least":   `{"timing":{"interval":30},"callback":{"http":{"uri":"http://10.0.0.17:8080/cb","opaque":"id-17"}}}`,
		"typical": typicalBody,
		"large":   strings.Replace(typicalBody, "sip:", strings.Repeat("abcdefgh", 4096), 1),
	} {
		b.Run(name, func(b *testing.B) {
			raw := []byte(body)
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			var d decoder
			for b.Loop() {
				if _, _, err := d.decode(raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// What encoding/json takes for the same body, with none of the checks.
func BenchmarkDecodeWithEncodingJSON(b *testing.B) {
	raw := []byte(typicalBody)
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		var peer timerView
		if err := json.Unmarshal(raw, &peer); err != nil {
			b.Fatal(err)
		}
	}
}

// One request from its headers to its answer, without the network and the
// scheduler.
func BenchmarkPost(b *testing.B) {
	receipt := timer.Receipt{ID: timer.ID{Key: strings.Repeat("0", 32), RF: 2, Hint: 7}, Due: time.UnixMilli(1e12), Copies: 2}
	handler := New(Config{Timers: constantTimers{receipt}}).app.Server().Handler
	var rc fasthttp.RequestCtx
	rc.Request.Header.SetMethod("POST")
	rc.Request.SetRequestURI("/timers")
	rc.Request.SetBodyString(typicalBody)
	b.ReportAllocs()
	for b.Loop() {
		rc.Response.Reset()
		if handler(&rc); rc.Response.StatusCode() != fasthttp.StatusOK {
			b.Fatalf("have %d %s", rc.Response.StatusCode(), rc.Response.Body())
		}
	}
}

// timersOf makes the body of a batch of n times the same entry.
func timersOf(n int, entry string) string {
	return `{"timers":[` + strings.Repeat(entry+",", n-1) + entry + `]}`
}

// A batch from its headers to its answer, without the network and the scheduler.
func BenchmarkPostBatch(b *testing.B) {
	receipt := timer.Receipt{ID: timer.ID{Key: strings.Repeat("0", 32), RF: 2, Hint: 7}, Due: time.UnixMilli(1e12), Copies: 2}
	handler := New(Config{Timers: constantTimers{receipt}}).app.Server().Handler
	const least = `{"timing":{"interval":30},"callback":{"http":{"uri":"http://10.0.0.17:8080/cb","opaque":"id-17"}}}`
	for _, n := range []int{1, 100, 1000} {
		for name, entry := range map[string]string{"least": least, "typical": typicalBody} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				var rc fasthttp.RequestCtx
				rc.Request.Header.SetMethod("POST")
				rc.Request.SetRequestURI("/timers/batch")
				body := []byte(timersOf(n, entry))
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
