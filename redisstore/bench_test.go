package redisstore

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"chronos/scheduler"
)

// BenchmarkScripts takes one-shot timers through a real redis-server, so many a
// call, and reports how long Redis was busy with each script, by its own clock
// (INFO commandstats), in µs a timer.
func BenchmarkScripts(b *testing.B) {
	for _, together := range []int{1, 50, 500} {
		b.Run(fmt.Sprintf("together=%d", together), func(b *testing.B) { benchScripts(b, together) })
	}
}

func benchScripts(b *testing.B, together int) {
	r := startRedis(b)
	s := openStore(b, "0198f1c2-6d0e-7b11-9c55-5ad3a0b7e913", "http", r)
	busy := func(phase string, work func()) {
		before := scriptTime(b, r)
		work()
		b.ReportMetric(float64((scriptTime(b, r)-before).Nanoseconds())/1e3/float64(b.N), phase+"-us/timer")
	}
	busy("merge", func() { fill(b, s, b.N, together, 0) })
	var claims []scheduler.Claimed
	busy("claim", func() { claims = claimMany(b, s, b.N, together) })
	busy("fire", func() {
		inLots(claims, together, func(lot []scheduler.Claimed) {
			fences := make([]scheduler.Fence, len(lot))
			for i, c := range lot {
				fences[i] = scheduler.Fence{Lease: c.Lease, Pops: 1}
			}
			terms := scheduler.FenceTerms{Limit: time.Minute, Hold: 2 * time.Minute}
			for _, fenced := range s.Fire(b.Context(), "a", terms, fences) {
				if fenced.Status != scheduler.FencePassed {
					b.Fatalf("fence: %+v", fenced)
				}
			}
		})
	})
	busy("settle", func() {
		inLots(claims, together, func(lot []scheduler.Claimed) {
			settlements := make([]scheduler.Settlement, len(lot))
			for i, c := range lot {
				settlements[i] = scheduler.Settlement{Lease: c.Lease, Outcome: scheduler.OutcomeDone}
			}
			for _, settled := range s.Settle(b.Context(), "a", settlements) {
				if !settled.Accepted {
					b.Fatalf("settle: %+v", settled)
				}
			}
		})
	})
}

// fill creates n timers like those of the load tests, so many a call.
func fill(b *testing.B, s *Store, n, together int, interval time.Duration) {
	b.Helper()
	opaque := strings.Repeat("x", 100)
	for made := 0; made < n; {
		writes := make([]scheduler.Write, 0, together)
		for ; made < n && len(writes) < together; made++ {
			key, err := s.NewKey()
			if err != nil {
				b.Fatal(err)
			}
			w := creation(key, interval)
			w.Timer.Callback = scheduler.Callback{URI: "http://127.0.0.1:9000/callbacks/abcdefghijklmnopqr", Opaque: opaque}
			writes = append(writes, w)
		}
		for _, written := range s.Merge(b.Context(), writes) {
			if written.Status != scheduler.WriteStored {
				b.Fatalf("merge: %+v", written)
			}
		}
	}
}

func claimMany(b *testing.B, s *Store, n, together int) []scheduler.Claimed {
	b.Helper()
	var claims []scheduler.Claimed
	for len(claims) < n {
		got, err := s.Claim(b.Context(), "a", scheduler.ClaimRequest{Horizon: time.Second, Limit: together, Grace: time.Minute})
		if err != nil {
			b.Fatal(err)
		}
		claims = append(claims, got.Claims...)
	}
	return claims
}

func inLots[T any](all []T, size int, do func([]T)) {
	for len(all) > 0 {
		n := min(size, len(all))
		do(all[:n])
		all = all[n:]
	}
}

// scriptTime is how long Redis has run scripts.
func scriptTime(b *testing.B, r *testRedis) time.Duration {
	b.Helper()
	info, err := r.client.Info(context.Background(), "commandstats").Result()
	if err != nil {
		b.Fatal(err)
	}
	var us, total int64
	for line := range strings.Lines(info) {
		if _, figures, ok := strings.Cut(line, "cmdstat_eval"); ok {
			if _, figure, found := strings.Cut(figures, "usec="); found {
				if _, err := fmt.Sscanf(figure, "%d", &us); err == nil {
					total += us
				}
			}
		}
	}
	return time.Duration(total) * time.Microsecond
}

const benchedRecord = "01a1fbe0aefb231c 1 0 0 2 - - 1795227168508 600000 - - - - " +
	`{"uri":"http://127.0.0.1:9000/callbacks/abcdefghijklmnopqr","opaque":"` + "plain text of some length, as most have it" + `"}`

// A record as a claim reads it.
func BenchmarkReadRecord(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		rec, err := parseRecord(benchedRecord)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := rec.scheduled("key"); err != nil {
			b.Fatal(err)
		}
	}
}

// A record as a create writes it.
func BenchmarkWriteRecord(b *testing.B) {
	b.ReportAllocs()
	w := creation("01a1fb85e06c712ab4c17a3759564143", time.Minute)
	w.Timer.Callback.Opaque = strings.Repeat("x", 100)
	s, answers := &Store{}, make([]scheduler.Written, 1)
	for b.Loop() {
		if s.mergeItems([]scheduler.Write{w}, answers); answers[0].Err != nil {
			b.Fatal(answers[0].Err)
		}
	}
}

func BenchmarkNewKey(b *testing.B) {
	b.ReportAllocs()
	s := &Store{}
	for b.Loop() {
		if _, err := s.NewKey(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRendezvous(b *testing.B) {
	const key = "01a1fb85e06c712ab4c17a3759564143"
	for _, shards := range []int{3, 16} {
		names := make([]string, shards)
		for i := range names {
			names[i] = fmt.Sprintf("shard-%d", i)
		}
		r := newRing(names)
		b.Run(fmt.Sprintf("order of %d", shards), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r.order(key)
			}
		})
	}
}
