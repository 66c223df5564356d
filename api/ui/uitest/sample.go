package uitest

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// Hostile is text that tries to be markup, to be script, and to change the direction of the text.
const Hostile = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">'\"&\u202etxt.exe\u0000\u200b`$(touch /tmp/owned)`"

// HostileKey is the key of the timer whose every part is hostile. A key has harmless characters alone.
const HostileKey = "hostile"

// Sample fills the backend with timers and dead letters of all kinds, hostile ones included.
func (b *Backend) Sample() *Backend {
	now := b.began
	b.Harmless()
	b.Put(Timer{Key: HostileKey, Due: now.Add(3 * time.Minute), Failure: store.Failure{Node: Hostile, At: now, Reason: Hostile}, State: timer.State{Attempt: 1}, Timer: timer.Timer{
		Interval: time.Hour, Tags: []timer.Tag{{Type: Hostile, Count: 1}},
		Callback: timer.Callback{URI: "http://a.example/" + strings.Repeat("long", 80) + Hostile, Opaque: Hostile + strings.Repeat("x", 100) + "\xff"},
	}})
	b.Dead.Bury(now.Add(-time.Minute), Hostile, Timer{Key: Hostile, State: timer.State{Seq: 1, Attempt: 1}, Timer: timer.Timer{Callback: timer.Callback{URI: "javascript:alert(1)", Opaque: Hostile}}})
	b.Dead.BuryUnreadable(now.Add(-3*time.Hour), `{"uri":"http://user:password@h/","headers":{"Authorization":"secret"}`+Hostile)
	return b
}

// Harmless fills the backend with timers and dead letters as clients mean them.
func (b *Backend) Harmless() *Backend {
	now := b.began
	orders := timer.Callback{URI: "https://orders.example.com/v1/reminders?shop=1"}
	b.Put(Timer{Key: "order-48213-reminder", Due: now.Add(42 * time.Second), Timer: timer.Timer{
		Interval: 15 * time.Minute, RepeatFor: 6 * time.Hour, Tags: []timer.Tag{{Type: "REMINDER", Count: 1}, {Type: "ORDER", Count: 2}},
		Callback: timer.Callback{URI: orders.URI, Opaque: `{"order":48213,"kind":"reminder"}`, Method: "PUT", Headers: headers("X-Shop", "1", "Authorization", "Bearer secret-of-the-shop"), Timeout: 5 * time.Second, Retry: timer.Retry{Attempts: 8, First: 2 * time.Second}},
	}, State: timer.State{Seq: 5}})
	b.Put(Timer{Key: "invoice-2231", Due: now.Add(-90 * time.Second), Retry: now.Add(25 * time.Second), State: timer.State{Attempt: 3},
		Failure: store.Failure{Node: "node-2", At: now.Add(-5 * time.Second), Reason: "status 503"},
		Timer:   timer.Timer{Interval: time.Hour, Callback: timer.Callback{URI: "http://user:password@billing.internal:8080/due"}}})
	b.Put(Timer{Key: "session-expiry-7f3a", Due: now.Add(200 * time.Millisecond), Leased: true, Timer: timer.Timer{At: now.Add(200 * time.Millisecond).Truncate(time.Millisecond), Callback: timer.Callback{URI: "https://mail.example.net:8443/expire"}}})
	for i := range 240 {
		b.Put(Timer{Key: fmt.Sprintf("user-%04d-trial-end", i), Due: now.Add(time.Duration(i+10) * 7 * time.Minute), Timer: timer.Timer{Interval: 30 * 24 * time.Hour, Callback: orders, Tags: []timer.Tag{{Type: "TRIAL", Count: 1}}}})
	}
	for i := range 37 {
		b.Dead.Bury(now.Add(-time.Duration(60-i)*time.Minute), "status 503", Timer{Key: fmt.Sprintf("invoice-%04d", i), State: timer.State{Version: timer.VersionAt(now, uint16(i)), Seq: 1, Attempt: 5}, Timer: timer.Timer{Interval: time.Hour, Callback: timer.Callback{URI: "http://user:password@billing.internal:8080/due", Opaque: "invoice"}}})
	}
	for i := range 4 {
		b.Dead.Bury(now.Add(-time.Duration(20-i)*time.Minute), "dial: connection refused", Timer{Key: fmt.Sprintf("mail-%04d", i), State: timer.State{Seq: 1, Attempt: 5}, Timer: timer.Timer{Interval: time.Minute, Callback: timer.Callback{URI: "https://mail.example.net:8443/send"}}})
	}
	return b
}

func headers(pairs ...string) (all timer.Headers) {
	for i := 0; i+1 < len(pairs); i += 2 {
		with, err := all.With(pairs[i], pairs[i+1])
		all = with
		if err != nil {
			panic(cmp.Or(err.Detail, "header")) // the pairs are constants
		}
	}
	return all
}
