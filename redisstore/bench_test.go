package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// BenchmarkScripts takes one-shot timers through a real redis-server, with the given number of timers in a call of the
// store, on one partition or on all partitions. The benchmark reports how long Redis was busy with each script, by Redis'
// own clock (INFO commandstats), in µs a timer.
func BenchmarkScripts(b *testing.B) { inCalls(b, scriptsFor("", 0)) }

// BenchmarkMessages does the same for messages of a stream, whose ends are remembered.
func BenchmarkMessages(b *testing.B) { inCalls(b, scriptsFor(strings.Repeat("a", 32), 10*time.Minute)) }

// BenchmarkCopies does the same for questions about timers that fire on another shard, and for their outcomes.
func BenchmarkCopies(b *testing.B) { inCalls(b, benchCopies) }

// inCalls runs a benchmark with several numbers of timers in a call, on one partition and on all partitions.
func inCalls(b *testing.B, bench func(b *testing.B, r *testRedis, s *Store, together int, partitions []int)) {
	b.Helper()
	for _, partitions := range [][]int{{3}, nil} {
		for _, together := range []int{1, 4, 16, 64, 500} {
			name := fmt.Sprintf("partitions=%d/together=%d", cmp.Or(len(partitions), Partitions), together)
			b.Run(name, func(b *testing.B) {
				r := startRedis(b)
				bench(b, r, openStore(b, "0198f1c2-6d0e-7b11-9c55-5ad3a0b7e913", "http", r), together, partitions)
			})
		}
	}
}

// scriptsFor takes timers with the body hash through the scripts, and keeps the ends of the timers.
func scriptsFor(hash string, keep time.Duration) func(b *testing.B, r *testRedis, s *Store, together int, partitions []int) {
	return func(b *testing.B, r *testRedis, s *Store, together int, partitions []int) {
		b.Helper()
		benchScripts(b, r, s, together, partitions, hash, keep)
	}
}

func benchScripts(b *testing.B, r *testRedis, s *Store, together int, partitions []int, hash string, keep time.Duration) {
	b.Helper()
	busy := func(phase string, work func()) {
		before := scriptTime(b, r)
		work()
		b.ReportMetric(float64((scriptTime(b, r)-before).Nanoseconds())/1e3/float64(b.N), phase+"-us/timer")
	}
	busy("merge", func() { fill(b, s, b.N, together, 0, partitions, hash) })
	var claims []store.Claimed
	busy("claim", func() { claims = claimMany(b, s, b.N, together, partitions) })
	busy("fire", func() {
		inLots(claims, together, func(lot []store.Claimed) {
			fences := make([]store.Fence, len(lot))
			for i, c := range lot {
				fences[i] = store.Fence{Lease: c.Lease, Pops: 1}
			}
			terms := store.FenceTerms{Limit: time.Minute, Hold: 2 * time.Minute}
			for _, fenced := range s.Fire(b.Context(), "a", terms, fences) {
				if fenced.Status != store.FencePassed {
					b.Fatalf("fence: %+v", fenced)
				}
			}
		})
	})
	busy("settle", func() {
		inLots(claims, together, func(lot []store.Claimed) {
			settlements := make([]store.Settlement, len(lot))
			for i, c := range lot {
				settlements[i] = store.Settlement{Lease: c.Lease, Outcome: store.OutcomeDone, Keep: keep}
			}
			for _, settled := range s.Settle(b.Context(), "a", settlements) {
				if !settled.Accepted {
					b.Fatalf("settle: %+v", settled)
				}
			}
		})
	})
}

func benchCopies(b *testing.B, r *testRedis, s *Store, together int, partitions []int) {
	fill(b, s, b.N, together, time.Hour, partitions, "")
	b.ResetTimer()
	keys, err := r.client.HKeys(b.Context(), s.keys[0].timers).Result()
	for p := 1; p < Partitions && err == nil; p++ {
		var more []string
		more, err = r.client.HKeys(b.Context(), s.keys[p].timers).Result()
		keys = append(keys, more...)
	}
	if err != nil {
		b.Fatal(err)
	}
	mixed := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same order each time
	mixed.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	states := make(map[string]timer.State, len(keys))
	inLots(keys, 500, func(keys []string) {
		spots := make([]store.Spot, len(keys))
		for i, key := range keys {
			spots[i] = store.Spot{Shard: "a", Key: key}
		}
		for i, read := range s.Read(b.Context(), spots) {
			states[keys[i]] = read.Record.State
		}
	})
	busy := func(phase string, do func(keys []string)) {
		before := scriptTime(b, r)
		inLots(keys, together, do)
		b.ReportMetric(float64((scriptTime(b, r)-before).Nanoseconds())/1e3/float64(b.N), phase+"-us/timer")
	}
	tell := func(kind store.WriteKind, seq int) func(keys []string) {
		return func(keys []string) {
			writes := make([]store.Write, len(keys))
			for i, key := range keys {
				writes[i] = store.Write{Kind: kind, Shard: "a", Key: key, State: states[key], RF: 2, Rank: 1, Life: time.Minute}
				writes[i].State.Seq = seq
				if kind == store.WriteNext {
					writes[i].Timer = creation(key, time.Hour).Timer
				}
			}
			for _, written := range s.Tell(b.Context(), "a", writes) {
				if written.Status != store.WriteStored {
					b.Fatalf("tell: %+v", written)
				}
			}
		}
	}
	for name, better := range map[string]bool{"ask": false, "ask-better": true} {
		busy(name, func(keys []string) {
			asked := make([]store.KeyState, len(keys))
			for i, key := range keys {
				asked[i] = store.KeyState{Key: key, State: states[key], Better: better}
			}
			if differences, err := s.Ask(b.Context(), "a", asked); err != nil || better != (len(differences) == len(keys)) {
				b.Fatalf("%s: %v, %v", name, differences, err)
			}
		})
	}
	busy("next", tell(store.WriteNext, 2))
	busy("done", tell(store.WriteDone, 2))
}

// fill creates n timers like the timers of the load tests, with together timers in a call. Without partitions, the timers
// are in all partitions.
func fill(b *testing.B, s *Store, n, together int, interval time.Duration, partitions []int, hash string) {
	b.Helper()
	opaque := strings.Repeat("x", 100)
	for made := 0; made < n; {
		writes := make([]store.Write, 0, together)
		for ; made < n && len(writes) < together; made++ {
			key, err := s.NewKey("")
			for err == nil && partitions != nil && !slices.Contains(partitions, partitionOf(key)) {
				key, err = s.NewKey("")
			}
			if err != nil {
				b.Fatal(err)
			}
			w := creation(key, interval)
			w.BodyHash = hash
			w.Timer.Callback = timer.Callback{URI: "http://127.0.0.1:9000/callbacks/abcdefghijklmnopqr", Opaque: opaque}
			writes = append(writes, w)
		}
		for _, written := range s.Merge(b.Context(), writes) {
			if written.Status != store.WriteStored {
				b.Fatalf("merge: %+v", written)
			}
		}
	}
}

func claimMany(b *testing.B, s *Store, n, together int, partitions []int) []store.Claimed {
	b.Helper()
	var claims []store.Claimed
	for len(claims) < n {
		got, err := s.Claim(b.Context(), "a", store.ClaimRequest{Horizon: time.Second, Limit: together, Grace: time.Minute, Partitions: partitions})
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

// A record as a create writes it.
func BenchmarkWriteRecord(b *testing.B) {
	b.ReportAllocs()
	w := creation("01a1fb85e06c712ab4c17a3759564143", time.Minute)
	w.Timer.Callback.Opaque = strings.Repeat("x", 100)
	s, answers := &Store{}, make([]store.Written, 1)
	for b.Loop() {
		if s.mergeItems([]store.Write{w}, answers); answers[0].Err != nil {
			b.Fatal(answers[0].Err)
		}
	}
}

func BenchmarkNewKey(b *testing.B) {
	b.ReportAllocs()
	s := &Store{}
	for b.Loop() {
		if _, err := s.NewKey(""); err != nil {
			b.Fatal(err)
		}
	}
}
