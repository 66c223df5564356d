package redisstore

import (
	"errors"
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
		const text = "2X 0000000000000005 whatever comes then"
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
			store.WriteBury, store.WriteDone, store.WriteNext, store.WriteAgain, store.WriteLive, store.WriteRank, store.WriteLeave,
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
