package redisstore

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/verify/testkit"
)

// A Redis whose memory is full takes no new timer, and goes on firing and deleting the stored timers.
func TestFullServer(t *testing.T) {
	t.Parallel()
	p := testkit.StartRedis(t)
	s := openShards(t, io.Discard, shardOf("a", p))
	const each = 20
	var keys []string
	for i := range each {
		for kind, w := range map[string]store.Write{
			"once": creation("once-"+strconv.Itoa(i), 0), "every": creation("every-"+strconv.Itoa(i), 100*time.Millisecond),
			"again": creation("again-"+strconv.Itoa(i), 0), "dead": creation("dead-"+strconv.Itoa(i), 0),
			"letter": creation("letter-"+strconv.Itoa(i), 0), "gone": creation("gone-"+strconv.Itoa(i), time.Hour), "kept": creation("kept-"+strconv.Itoa(i), time.Hour),
		} {
			if kind == "every" {
				w.Timer.RepeatFor = time.Hour
			}
			keys = append(keys, w.Key)
			w.Timer.Tags = []timer.Tag{{Type: kind, Count: 2}}
			merge(t, s, w)
		}
	}
	for i := range 4 {
		merge(t, s, creation("told-"+strconv.Itoa(i), time.Hour))
	}
	p.Do("CONFIG", "SET", "maxmemory", "1mb")
	if p.Admin.Set(t.Context(), "x", "y", 0).Err() == nil {
		t.Fatal("its memory is not full")
	}

	// Creates and deletes of many clients come together, so that they share calls.
	var clients sync.WaitGroup
	for i := range each {
		clients.Go(func() {
			answer := s.Merge(t.Context(), []store.Write{taggedCreation("new-"+strconv.Itoa(i), timer.Tag{Type: "new", Count: 1})})[0]
			if !errors.Is(answer.Err, timer.ErrUnavailable) {
				t.Errorf("create in full memory: status %d, %v, want ErrUnavailable", answer.Status, answer.Err)
			}
			answer = s.Merge(t.Context(), []store.Write{creation("kept-"+strconv.Itoa(i), 2*time.Hour)})[0]
			if !errors.Is(answer.Err, timer.ErrUnavailable) {
				t.Errorf("replace in full memory: status %d, %v, want ErrUnavailable", answer.Status, answer.Err)
			}
		})
		clients.Go(func() {
			answers := s.Merge(t.Context(), []store.Write{deletion("gone-" + strconv.Itoa(i)), deletion("unknown-" + strconv.Itoa(i))})
			for _, answer := range answers {
				if answer.Err != nil || answer.Status != store.WriteStored {
					t.Errorf("delete in full memory: status %d, %v", answer.Status, answer.Err)
				}
			}
		})
	}
	clients.Wait()
	for i := range each {
		key := "new-" + strconv.Itoa(i)
		part := s.keys[partitionOf(key)]
		for _, half := range []string{fmt.Sprint(p.Do("HGET", part.timers, key)), fmt.Sprint(p.Do("ZSCORE", part.due, key)), fmt.Sprint(p.Do("HGET", part.leases, key))} {
			if half != "<nil>" {
				t.Errorf("%s was refused, and left %s", key, half)
			}
		}
		if kept := read(t, s, "kept-"+strconv.Itoa(i)); kept.Err != nil || kept.Record.Timer.Interval != time.Hour {
			t.Errorf("a timer whose replacement was refused is %+v, %v", kept.Record, kept.Err)
		}
	}

	if said, err := s.Beat(t.Context(), "a", store.Announcement{Clock: time.Now()}); err != nil || len(said.Nodes) != 1 {
		t.Errorf("announce in full memory: %v, %v", said.Nodes, err)
	}
	paused := store.Decision{Destination: "http://receiver:80", Stamp: timer.VersionAt(time.Now(), 1), Until: time.Now().Add(time.Hour)}
	if latest, err := s.Decide(t.Context(), "a", []store.Decision{paused}); err != nil || latest[0].Stamp != paused.Stamp {
		t.Errorf("pause in full memory: %+v, %v", latest, err)
	}
	outcomesToldInFullMemory(t, s)
	outcomes := map[string]store.Outcome{
		"once": store.OutcomeDone, "every": store.OutcomeNext, "again": store.OutcomeAgain, "dead": store.OutcomeDead,
		"letter": store.OutcomeDone,
	}
	fired := map[string]int{}
	testkit.Eventually(t, testkit.Soon, "all to be fired", func() bool {
		result, err := claimAll(t.Context(), s, "a")
		if err != nil {
			t.Fatalf("claim in full memory: %v", err)
		}
		for _, c := range result.Claims {
			kind, _, _ := strings.Cut(c.Lease.Key, "-")
			if kind == "letter" {
				letter := store.Settlement{Lease: c.Lease, Outcome: store.OutcomeLetter, Reason: "no more"}
				if o := s.Settle(t.Context(), "a", []store.Settlement{letter})[0]; !o.Accepted {
					t.Errorf("dead letter in full memory: %v", o.Err)
				}
			}
			if err := fireAll(t.Context(), s, "a", []store.Claimed{c}, outcomes[kind]); err != nil {
				t.Fatalf("fire in full memory: %v", err)
			}
			fired[kind]++
		}
		return fired["once"] == each && fired["every"] >= 2*each && fired["again"] >= 2*each && fired["dead"] == each &&
			fired["letter"] == each
	})
	if answer := read(t, s, "dead-0"); !errors.Is(answer.Err, timer.ErrNotFound) {
		t.Errorf("a dead timer is %+v, %v", answer.Record, answer.Err)
	}
	for _, key := range keys {
		kind, _, _ := strings.Cut(key, "-")
		if err := read(t, s, key).Err; slices.Contains([]string{"every", "again", "kept"}, kind) != (err == nil) {
			t.Errorf("%s: %v", key, err)
		}
	}
	wantSums(t, s, map[string]int64{"every": 2 * each, "again": 2 * each, "kept": 2 * each})
	p.Do("CONFIG", "SET", "maxmemory", "0")
	if !works(t, s, "new") {
		t.Error("nothing is stored now that there is memory again")
	}
}

// outcomesToldInFullMemory: a copy hears of the outcome of another copy's callback, and goes on or ends. A create of the
// same call is refused.
func outcomesToldInFullMemory(t *testing.T, s *Store) {
	t.Helper()
	for i, kind := range []store.WriteKind{store.WriteNext, store.WriteAgain, store.WriteDone, store.WriteDrop} {
		key := "told-" + strconv.Itoa(i)
		there := read(t, s, key)
		w := store.Write{Kind: kind, Shard: "a", Key: key, State: there.Record.State, RF: 1, Rank: 1, Retry: time.Hour, Life: time.Minute}
		w.State.Attempt = 1
		if kind == store.WriteNext {
			w.State.Seq, w.Timer = 2, &there.Record.Timer
		}
		create := creation(s.keysOf("a", Partitions-1, i+1)[i], time.Hour) // of the last partition of the call
		answers := s.Tell(t.Context(), "a", []store.Write{w, create})
		if answer := answers[0]; answer.Err != nil || answer.Status != store.WriteStored {
			t.Errorf("tell %s in full memory: status %d, %v", kind, answer.Status, answer.Err)
		}
		if answer := answers[1]; !errors.Is(answer.Err, timer.ErrUnavailable) {
			t.Errorf("create beside %s in full memory: status %d, %v, want ErrUnavailable", kind, answer.Status, answer.Err)
		}
	}
}
