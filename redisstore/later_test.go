package redisstore

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// TestLaterFormatsAreLeftAlone: a record that a later chronos has written is neither claimed, overwritten nor given
// up, and holds up no timer that is due behind the record.
func TestLaterFormatsAreLeftAlone(t *testing.T) {
	t.Parallel()
	onBothRedis(t, func(t *testing.T, shard *testRedis, s *Store) {
		const text = "3X 0000000000000005 whatever comes then"
		now, err := shard.client.Time(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		keys := s.keysOf("a", 3, 1002)
		young, healthy, old := keys[0], keys[1], keys[2:]
		plant := func(key string, overdue time.Duration) {
			shard.client.HSet(t.Context(), s.keys[3].timers, key, text)
			shard.client.ZAdd(t.Context(), s.keys[3].due, redis.Z{Score: float64(now.Add(-overdue).UnixMilli()), Member: key})
		}
		for _, key := range old {
			plant(key, time.Minute)
		}
		plant(young, -time.Minute) // claims are told to look so far ahead
		w := oneWrite(healthy, 1)
		w.Timer.Interval = 0
		if got := s.Merge(t.Context(), []store.Write{w})[0]; got.Err != nil {
			t.Fatal(got.Err)
		}

		claimed, putOff := 0, 0
		for range 3 { // each claim puts off 500 at most
			result, err := s.Claim(t.Context(), "a", store.ClaimRequest{Horizon: 2 * time.Minute, Limit: 500, Grace: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			putOff += result.PutOff
			for _, c := range result.Claims {
				if claimed++; c.Lease.Key != healthy || c.Err != nil {
					t.Errorf("%s is claimed, %v", c.Lease.Key, c.Err)
				}
			}
		}
		if claimed != 1 || putOff != len(old) {
			t.Errorf("%d are claimed and %d put off, want 1 and %d", claimed, putOff, len(old))
		}
		if score := shard.client.ZScore(t.Context(), s.keys[3].due, young).Val(); int64(score) != now.Add(time.Minute).UnixMilli() {
			t.Errorf("one that is not due yet is looked at another time, in %v", time.UnixMilli(int64(score)).Sub(now))
		}
		for _, key := range old {
			if score := shard.client.ZScore(t.Context(), s.keys[3].due, key).Val(); int64(score) < now.Add(10*time.Second).UnixMilli() {
				t.Errorf("%s is looked at in %v, want 10 s or more", key, time.UnixMilli(int64(score)).Sub(now))
			}
		}

		lease := store.Lease{Shard: "a", Key: young, Token: "node:1:1", Partition: 3}
		shard.client.HSet(t.Context(), s.keys[3].leases, young, lease.Token)
		for _, outcome := range []store.Outcome{store.OutcomeDone, store.OutcomeNext, store.OutcomeAgain, store.OutcomeLetter, store.OutcomeDead} {
			if got := s.Settle(t.Context(), "a", []store.Settlement{{Lease: lease, Outcome: outcome, Reason: "x"}})[0]; got.Accepted || got.Err != nil {
				t.Errorf("%v: %+v", outcome, got)
			}
		}
		for _, kind := range []store.WriteKind{
			store.WritePut, store.WriteOnce, store.WriteAnew, store.WriteOnto, store.WriteLook, store.WriteDrop, store.WriteGone,
			store.WriteBury, store.WriteDone, store.WriteNext, store.WriteAgain, store.WriteLive, store.WriteRank, store.WriteLeave, store.WriteHasten,
		} {
			w := oneWrite(young, 9)
			w.Kind = kind
			if got := s.Merge(t.Context(), []store.Write{w})[0]; !errors.Is(got.Err, timer.ErrUpgrading) {
				t.Errorf("a write of kind %s: %+v, want ErrUpgrading", kind, got)
			}
		}
		if got := s.Read(t.Context(), []store.Spot{{Shard: "a", Key: young}})[0]; !errors.Is(got.Err, timer.ErrUpgrading) {
			t.Errorf("read: %+v, want ErrUpgrading", got)
		}
		differences, err := s.Ask(t.Context(), "a", []store.KeyState{{Key: young, State: timer.State{Version: 5, Seq: 1}}})
		if want := (store.Difference{Later: true, State: timer.State{Version: 5}}); err != nil || len(differences) != 1 || differences[0] != want {
			t.Errorf("ask: %+v, %v; want %+v", differences, err, want)
		}
		for _, key := range keys {
			if key != healthy && shard.client.HGet(t.Context(), s.keys[3].timers, key).Val() != text {
				t.Errorf("the record of %s is another one", key)
			}
		}
		if letters := shard.client.ZCard(t.Context(), s.keys[3].dead).Val(); letters != 0 {
			t.Errorf("%d dead letters", letters)
		}
	})
}

// TestMembersOfTheSecondFormat: a live record of a timer with a member of the second format has that
// format, whatever becomes of the timer, and keeps the member.
func TestMembersOfTheSecondFormat(t *testing.T) {
	t.Parallel()
	onBothRedis(t, func(t *testing.T, shard *testRedis, s *Store) {
		key := s.keysOf("a", 3, 1)[0]
		asked := &timer.Timer{
			Interval: time.Millisecond, RepeatFor: 9 * time.Millisecond, ReplicationFactor: 1,
			Callback: timer.Callback{URI: "http://receiver.example/", Headers: "\r\nAuthorization: Bearer x"},
		}
		want := func(after, beginning string) {
			t.Helper()
			text := shard.client.HGet(t.Context(), s.keys[3].timers, key).Val()
			if len(text) < 2 || text[:2] != beginning {
				t.Errorf("after %s the record is %q, want %s…", after, text, beginning)
			}
			if found := s.Read(t.Context(), []store.Spot{{Shard: "a", Key: key}})[0]; beginning == "2L" && (found.Err != nil || found.Record.Timer.Callback != asked.Callback) {
				t.Errorf("after %s: %+v, %v", after, found.Record.Timer.Callback, found.Err)
			}
		}
		write := func(kind store.WriteKind, state timer.State) {
			t.Helper()
			w := oneWrite(key, state.Version)
			w.Kind, w.State, w.Timer, w.Rank = kind, state, asked, 1
			if got := s.Merge(t.Context(), []store.Write{w})[0]; got.Err != nil || got.Status != store.WriteStored {
				t.Fatalf("write %s: %+v", kind, got)
			}
			want("the write "+string(kind), "2L")
		}
		settle := func(outcome store.Outcome) {
			t.Helper()
			result, err := s.Claim(t.Context(), "a", store.ClaimRequest{Horizon: time.Minute, Limit: 1, Grace: time.Minute})
			if err != nil || len(result.Claims) != 1 {
				t.Fatalf("claim: %d claims, %v", len(result.Claims), err)
			}
			lease := result.Claims[0].Lease
			time.Sleep(10 * time.Millisecond) // until the pop is due
			terms := store.FenceTerms{Limit: time.Minute, Hold: time.Minute, CatchUp: 100}
			if got := s.Fire(t.Context(), "a", terms, []store.Fence{{Lease: lease, Pops: 9}})[0]; got.Status != store.FencePassed {
				t.Fatalf("fence: %+v", got)
			}
			if got := s.Settle(t.Context(), "a", []store.Settlement{{Lease: lease, Outcome: outcome, Reason: "x"}})[0]; !got.Accepted {
				t.Fatalf("settle %v: %+v", outcome, got)
			}
			want("the outcome "+outcome.String(), "2L")
		}
		write(store.WritePut, timer.State{Version: 5, Seq: 1})
		settle(store.OutcomeAgain)
		settle(store.OutcomeNext)
		write(store.WriteLive, timer.State{Version: 6, Seq: 1})
		write(store.WriteRank, timer.State{Version: 6, Seq: 1})
		write(store.WriteNext, timer.State{Version: 6, Seq: 2})
		write(store.WriteAgain, timer.State{Version: 6, Seq: 2, Attempt: 1})
		gone := oneWrite(key, 7)
		gone.Kind, gone.Timer, gone.State = store.WriteGone, nil, timer.State{Version: 7}
		if got := s.Merge(t.Context(), []store.Write{gone})[0]; got.Err != nil {
			t.Fatal(got.Err)
		}
		want("the end", "1T")
	})
}

// A record with a revision has the second format, since a node that knows only the first format can't read the revision.
// The record keeps the format with each further state.
func TestARevisionHasTheSecondFormat(t *testing.T) {
	t.Parallel()
	onBothRedis(t, func(t *testing.T, shard *testRedis, s *Store) {
		key := s.keysOf("a", 3, 1)[0]
		to := store.Target{Shard: "a", Key: key, RF: 1}
		asked := &timer.Timer{Interval: time.Hour, RepeatFor: 9 * time.Hour, ReplicationFactor: 1, Callback: timer.Callback{URI: "http://receiver.example/"}}
		read := store.Record{State: timer.State{Version: 5, Seq: 1}, Timer: *asked}
		further := read
		further.State.Seq = 4
		patched := read
		patched.State.Rev = 7
		for _, c := range []struct {
			name  string
			write store.Write
			want  string
		}{
			{"a create", store.Put(to, store.Creation{Version: 5, Timer: asked, DueIn: time.Hour}, 0), "1L"},
			{"a PATCH", store.Amend(to, &patched, store.Times{DueIn: time.Hour}), "2L"},
			{"a next pop", store.Next(to, timer.State{Version: 5, Seq: 2}, 0, store.Failure{}), "2L"},
			{"a retry", store.Again(to, timer.State{Version: 5, Seq: 2, Attempt: 1}, time.Second, store.Failure{Node: "n", Reason: "x"}), "2L"},
			{"a copy of a state without the revision", store.Copy(to, &further, store.Times{DueIn: 4 * time.Hour}), "2L"},
			{"a replacement", store.Put(to, store.Creation{Version: 9, Timer: asked, DueIn: time.Hour}, 0), "1L"},
		} {
			if got := s.Merge(t.Context(), []store.Write{c.write})[0]; got.Err != nil || got.Status != store.WriteStored {
				t.Fatalf("%s: %+v", c.name, got)
			}
			text := shard.client.HGet(t.Context(), s.keys[3].timers, key).Val()
			if revised := strings.Contains(text, " rev=0000000000000007 "); text[:2] != c.want || revised != (c.want == "2L") {
				t.Errorf("after %s the record is %q, want %s…", c.name, text, c.want)
			}
		}
	})
}
