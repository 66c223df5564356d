package redisstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/verify/testkit"
)

func anAttempt(key string, seq int) *store.Attempt {
	due := time.UnixMilli(1_795_221_099_878).UTC()
	return &store.Attempt{
		Key: key, State: timer.State{Version: 0x123, Seq: seq, Attempt: 2}, Node: "node", Due: due, Started: due.Add(3 * time.Millisecond),
		Took: 12 * time.Millisecond, Result: "no answer within 2 s", Destination: "https://api.example.com:443",
	}
}

// settleWith makes a timer, and settles the outcome of an attempt at its only pop.
func settleWith(t *testing.T, s *Store, key string, o store.Settlement) {
	t.Helper()
	w := oneWrite(key, 1)
	w.Timer.Interval = 0
	s.Merge(t.Context(), []store.Write{w})
	testkit.Eventually(t, testkit.Soon, key+" to be claimed", func() bool {
		claimed, err := s.Claim(t.Context(), "a", store.ClaimRequest{Horizon: time.Second, Limit: 99, Grace: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range claimed.Claims {
			o.Lease = c.Lease
			if settled := s.Settle(t.Context(), "a", []store.Settlement{o})[0]; settled.Err != nil || !settled.Accepted {
				t.Fatalf("settle %s: %+v", key, settled)
			}
		}
		return len(claimed.Claims) == 1
	})
}

func readLogOf(t *testing.T, s *Store, q store.LogQuery) store.LogPage {
	t.Helper()
	q.Look = 1000
	page, err := s.Log(t.Context(), "a", q)
	if err != nil {
		t.Fatalf("read the log: %v", err)
	}
	return page
}

// What somebody else has written into the log is passed over, and counted.
func TestUnreadableEntriesOfTheLogHinderNobody(t *testing.T) {
	t.Parallel()
	onBothRedis(t, func(t *testing.T, r *testRedis, s *Store) {
		keys := s.keysOf("a", 3, 2)
		key, log := keys[0], s.keys[3].deliveries
		settleWith(t, s, key, store.Settlement{Outcome: store.OutcomeDone, Attempt: anAttempt(key, 1)})
		good := string(appendAttempt(nil, anAttempt(key, 1)))
		texts := []string{
			"", " ", "s3cret", key, key + " ", key + strings.Repeat(" ", 20), strings.Replace(good, " 12 ", " 12x ", 1), strings.Replace(good, " failed ", " ? ", 1),
			strings.Replace(good, " 1795221099878 ", " 99999999999999999 ", 1), strings.Replace(good, " 1 2 ", " -1 2 ", 1), strings.Replace(good, "0000000000000123", "nan", 1),
			good + strings.Repeat("x", 5000), strings.Replace(good, key, "a/../b", 1), strings.Replace(good, key, s.keysOf("a", 4, 1)[0], 1), "\x00\xff" + good,
		}
		for _, text := range texts {
			r.client.XAdd(t.Context(), &redis.XAddArgs{Stream: log, Values: []string{"attempt", text}})
		}
		for _, values := range [][]string{{"other", good}, {"attempt", good, "more", "x"}, {"a", "b", "c", "d"}} {
			r.client.XAdd(t.Context(), &redis.XAddArgs{Stream: log, Values: values})
		}
		r.client.XAdd(t.Context(), &redis.XAddArgs{Stream: log, Values: []string{"attempt", good[:len(good)-4] + "\x1b[2J"}})
		for _, of := range []string{"", key} {
			page := readLogOf(t, s, store.LogQuery{Key: of})
			var got []store.Attempt
			unreadable := 0
			for _, e := range page.Entries {
				if e.Err == nil {
					got = append(got, e.Attempt)
					continue
				}
				if unreadable++; !errors.Is(e.Err, store.ErrUnreadable) || strings.Contains(e.Err.Error(), "s3cret") {
					t.Errorf("the error is %v", e.Err)
				}
			}
			odd := *anAttempt(key, 1)
			odd.Result = odd.Result[:len(odd.Result)-4] + "?[2J"
			if diff := cmp.Diff([]store.Attempt{odd, *anAttempt(key, 1)}, got); diff != "" {
				t.Errorf("attempts of %q (-want +got):\n%s", of, diff)
			}
			if of == "" && unreadable != len(texts)+3 || page.Until != nil {
				t.Errorf("%d unreadable entries, until %v; want %d", unreadable, page.Until, len(texts)+3)
			}
		}
	})
}

// A log that Redis can't write, for whatever reason, costs no outcome.
func TestALogThatCannotBeWrittenCostsNoOutcome(t *testing.T) {
	t.Parallel()
	onBothRedis(t, func(t *testing.T, r *testRedis, s *Store) {
		keys := s.keysOf("a", 3, 2)
		r.client.Set(t.Context(), s.keys[3].deliveries, "no stream", 0)
		settleWith(t, s, keys[0], store.Settlement{Outcome: store.OutcomeDead, Reason: "x", Attempt: anAttempt(keys[0], 1)})
		if page := readLogOf(t, s, store.LogQuery{}); len(page.Entries) != 0 || page.Until != nil {
			t.Errorf("the log has %+v", page)
		}
		r.client.Del(t.Context(), s.keys[3].deliveries)
		r.client.XAdd(t.Context(), &redis.XAddArgs{Stream: s.keys[3].deliveries, ID: "18446744073709551615-18446744073709551615", Values: []string{"attempt", "last"}})
		settleWith(t, s, keys[1], store.Settlement{Outcome: store.OutcomeDone, Attempt: anAttempt(keys[1], 1)})
		if letters := r.client.ZCard(t.Context(), s.keys[3].dead).Val(); letters != 1 {
			t.Errorf("%d dead letters, want 1", letters)
		}
		if survey, err := s.Survey(t.Context(), "a"); err != nil || survey.Pending+survey.Tombstones != 0 {
			t.Errorf("%+v are left, %v", survey, err)
		}
		if page := readLogOf(t, s, store.LogQuery{}); len(page.Entries) > 2 {
			t.Errorf("the log has %+v", page)
		}
	})
}

// Without a log the script gets the same keys and arguments as before the log.
func TestWithoutALogNothingIsLogged(t *testing.T) {
	t.Parallel()
	r := startSwift(t)
	s := openStore(t, "node", "http", r)
	s.logs, s.calls = 0, newCallKeys(&s.keys, false)
	o := store.Settlement{Outcome: store.OutcomeDone, Attempt: anAttempt("k", 1)}
	if terms := s.withAttempt(termsOf(&o), &o); terms != "-" || s.settler() != "node" || len(s.calls.settle[0]) != 5 {
		t.Errorf("terms %q, node %q, keys %q", terms, s.settler(), s.calls.settle[0])
	}
	settleWith(t, s, "k", o)
	if made := r.client.Exists(t.Context(), s.keys[partitionOf("k")].deliveries).Val(); made != 0 {
		t.Error("a log was made")
	}
}

// Outcomes of several partitions come in one call, with and without attempts.
func TestAttemptsOfSeveralPartitions(t *testing.T) {
	t.Parallel()
	onBothRedis(t, func(t *testing.T, r *testRedis, s *Store) {
		var writes []store.Write
		for p := range Partitions {
			for _, key := range s.keysOf("a", p, 3) {
				w := oneWrite(key, 1)
				w.Timer.Interval = 0
				writes = append(writes, w)
			}
		}
		s.Merge(t.Context(), writes)
		r.pass(t, 2*time.Millisecond)
		claimed, err := s.Claim(t.Context(), "a", store.ClaimRequest{Limit: 500, Grace: time.Minute})
		if err != nil || len(claimed.Claims) != len(writes) {
			t.Fatalf("%d claims, %v", len(claimed.Claims), err)
		}
		settlements := make([]store.Settlement, len(claimed.Claims))
		want := map[string]bool{}
		for i, c := range claimed.Claims {
			settlements[i] = store.Settlement{Lease: c.Lease, Outcome: store.OutcomeDone}
			if i%3 > 0 {
				settlements[i].Attempt, want[c.Lease.Key] = anAttempt(c.Lease.Key, i+1), true
			}
		}
		for i, settled := range s.Settle(t.Context(), "a", settlements) {
			if !settled.Accepted {
				t.Errorf("%s: %+v", settlements[i].Lease.Key, settled)
			}
		}
		page := readLogOf(t, s, store.LogQuery{})
		for _, e := range page.Entries {
			if e.Err != nil || !want[e.Attempt.Key] || e.Place.Partition != partitionOf(e.Attempt.Key) {
				t.Errorf("entry %+v", e)
			}
		}
		if len(page.Entries) != len(want) {
			t.Errorf("%d entries, want %d", len(page.Entries), len(want))
		}
	})
}

// A page that ends within a millisecond goes on in the other partitions of the millisecond.
func TestPagesOfTheLogWithinAMillisecond(t *testing.T) {
	t.Parallel()
	onBothRedis(t, func(t *testing.T, r *testRedis, s *Store) {
		var want []string
		for p := range 3 {
			for n, key := range s.keysOf("a", p, 4) {
				id := fmt.Sprintf("1795221099878-%d", n/2*7)
				if n%2 == 1 {
					id = fmt.Sprintf("1795221099878-%d", n/2*7+1)
				}
				if err := r.client.XAdd(t.Context(), &redis.XAddArgs{Stream: s.keys[p].deliveries, ID: id, Values: []string{"attempt", string(appendAttempt(nil, anAttempt(key, 1)))}}).Err(); err != nil {
					t.Fatal(err)
				}
				want = append(want, key)
			}
		}
		seen := map[string]int{}
		var after *store.LogPlace
		for range len(want) + 1 {
			page, err := s.Log(context.Background(), "a", store.LogQuery{After: after, Look: 1})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range page.Entries {
				seen[e.Attempt.Key]++
			}
			if after = page.Until; after == nil {
				break
			}
		}
		for _, key := range want {
			if seen[key] != 1 {
				t.Errorf("%s is listed %d times", key, seen[key])
			}
		}
	})
}

// A Redis whose memory is full goes on settling, with the log or without.
func TestALogInFullMemory(t *testing.T) {
	t.Parallel()
	p := testkit.StartRedis(t)
	s := openShards(t, io.Discard, shardOf("a", p))
	outcomes := map[string]store.Outcome{"done": store.OutcomeDone, "next": store.OutcomeNext, "again": store.OutcomeAgain, "dead": store.OutcomeDead}
	for name := range outcomes {
		w := creation(name, 0)
		if name == "next" {
			w = creation(name, 100*time.Millisecond)
			w.Timer.RepeatFor = time.Hour
		}
		merge(t, s, w)
	}
	p.Do("CONFIG", "SET", "maxmemory", "1mb")
	settled := map[string]bool{}
	testkit.Eventually(t, testkit.Soon, "all to be settled", func() bool {
		result, err := claimAll(t.Context(), s, "a")
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range result.Claims {
			o := store.Settlement{Lease: c.Lease, Outcome: outcomes[c.Lease.Key], Reason: "status 500", Attempt: anAttempt(c.Lease.Key, 1)}
			if got := s.Settle(t.Context(), "a", []store.Settlement{o})[0]; !got.Accepted {
				t.Errorf("%s in full memory: %+v", c.Lease.Key, got)
			}
			settled[c.Lease.Key] = true
		}
		return len(settled) == len(outcomes)
	})
	for _, e := range readLogOf(t, s, store.LogQuery{}).Entries {
		if e.Err != nil {
			t.Errorf("entry %+v", e)
		}
	}
}

// A pop that was fired before its time has an attempt that begins before the pop is due.
func TestAnAttemptMayBeginBeforeItsTime(t *testing.T) {
	t.Parallel()
	early := anAttempt("tea", 1)
	early.Started = early.Due.Add(-time.Hour)
	if got, err := readAttempt(string(appendAttempt(nil, early))); err != nil || got != *early {
		t.Errorf("read %+v, %v; want %+v", got, err, *early)
	}
}
