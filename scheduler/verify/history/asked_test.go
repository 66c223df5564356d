package history

import (
	"testing"
	"time"
)

// What a timer asks for itself. k7 is due from 41,000 to 41,004.
func TestTheJudgeKnowsWhatATimerAsksFor(t *testing.T) {
	for name, d := range map[string]struct {
		asked func(*Asked)
		calls [][3]int // arrival, status, and how long the answer took
		fault func(*book)
		want  []Invariant
	}{
		"an answer within the timer's own time": {
			func(a *Asked) { a.TimeoutMs = 10_000 }, [][3]int{{41_010, 200, 9000}}, nil, nil,
		},
		"an answer after the header's time": {
			func(*Asked) {}, [][3]int{{41_010, 200, 9000}}, nil, only(NothingLost),
		},
		"an answer after the timer's own time": {
			func(a *Asked) { a.TimeoutMs = 500 }, [][3]int{{41_010, 200, 1500}}, nil, only(NothingLost),
		},
		"all attempts that the timer asks for": {
			func(a *Asked) { a.Retry.Attempts = 2 }, [][3]int{{41_010, 500, 1}, {41_500, 500, 1}}, nil, nil,
		},
		"fewer attempts than the timer asks for": {
			func(a *Asked) { a.Retry.Attempts = 3 }, [][3]int{{41_010, 500, 1}, {41_500, 500, 1}}, nil, only(NothingLost),
		},
		"a pause as long as the timer asks for": {
			func(a *Asked) { a.Retry.FirstMs = 20_000 }, [][3]int{{41_010, 500, 1}, {61_000, 200, 1}}, nil, nil,
		},
		"a pause longer than the default": {
			func(*Asked) {}, [][3]int{{41_010, 500, 1}, {61_000, 200, 1}}, nil, only(OnTime),
		},
		"a pause longer than the timer asks for": {
			func(a *Asked) { a.Retry.FirstMs, a.Retry.Factor = 100, 1 }, [][3]int{{41_010, 500, 1}, {43_000, 200, 1}}, nil, only(OnTime),
		},
		"expired while all shards were away": {
			func(a *Asked) { a.ExpiresMs = 5000 }, nil, func(b *book) {
				b.fault(ShardAway, "a", 40_900, 60_000)
				b.fault(ShardAway, "b", 40_900, 60_000)
				b.fault(ShardAway, "c", 40_900, 60_000)
			}, nil,
		},
		"not called though nothing was in the way": {
			func(a *Asked) { a.ExpiresMs = 5000 }, nil, nil, only(NothingLost),
		},
		"called after it expired": {
			func(a *Asked) { a.ExpiresMs = 5000 }, [][3]int{{50_000, 200, 1}}, func(b *book) {
				b.fault(ShardAway, "a", 40_900, 60_000)
				b.fault(ShardAway, "b", 40_900, 60_000)
				b.fault(ShardAway, "c", 40_900, 60_000)
			}, only(OnTime),
		},
		"called again after it expired": {
			func(a *Asked) { a.ExpiresMs, a.Retry.FirstMs = 5000, 20_000 }, [][3]int{{41_010, 500, 1}, {55_000, 200, 1}}, nil, only(OnTime),
		},
		"given up since a retry would come too late": {
			func(a *Asked) { a.ExpiresMs, a.Retry.FirstMs = 5000, 20_000 }, [][3]int{{41_010, 500, 1}}, nil, nil,
		},
		"given up though a retry would come in time": {
			func(a *Asked) { a.ExpiresMs = 60_000 }, [][3]int{{41_010, 500, 1}}, nil, only(NothingLost),
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := clean()
			b.write(Create, "k7", "/7", 40_000, 1000, 1)
			d.asked(b.asked("/7").Timer)
			for i, call := range d.calls {
				n := b.call("k7", "/7", 7, 1, i+1, call[0], call[1])
				b.Callbacks[n].AnsweredNs = at(call[0] + call[2])
			}
			if d.fault != nil {
				d.fault(b)
			}
			b.Samples = nil // the nodes' totals have tests of their own
			b.Header.Exempt = []Invariant{BackToNormal, MetricsAgree}
			wantOnly(t, b.History, small(), d.want...)
		})
	}
}

func TestBackoffOfTheJudge(t *testing.T) {
	for attempt, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 6: 32 * time.Second, 7: time.Minute, 100: time.Minute} {
		if got := (Retry{}).backoff(attempt); got != want {
			t.Errorf("after attempt %d: %v, want %v", attempt, got, want)
		}
	}
	own := Retry{FirstMs: 100, Factor: 1.5, LongestMs: 200}
	for attempt, want := range map[int]time.Duration{1: 100 * time.Millisecond, 2: 150 * time.Millisecond, 3: 200 * time.Millisecond, 1000: 200 * time.Millisecond} {
		if got := own.backoff(attempt); got != want {
			t.Errorf("own, after attempt %d: %v, want %v", attempt, got, want)
		}
	}
	if got := (Retry{FirstMs: 500, Factor: 1}).backoff(100); got != 500*time.Millisecond {
		t.Errorf("level: %v", got)
	}
}
