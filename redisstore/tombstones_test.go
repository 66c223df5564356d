package redisstore

import (
	"testing"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/verify/testkit"
)

func wantSurvey(t *testing.T, s *Store, after string, pending, tombstones int64) {
	t.Helper()
	survey, err := s.Survey(t.Context(), "a")
	if err != nil || survey.Pending != pending || survey.Tombstones != tombstones {
		t.Errorf("%s: %d wait, and %d tombstones, want %d and %d (%v)", after, survey.Pending, survey.Tombstones, pending, tombstones, err)
	}
}

// A survey tells waiting timers from tombstones.
func TestSurveyTellsTimersFromTombstones(t *testing.T) {
	t.Parallel()
	onBothRedis(t, func(t *testing.T, r *testRedis, s *Store) {
		for _, key := range []string{"deleted", "fired", "kept", "waits"} {
			w := creation(key, 0)
			if key == "waits" {
				w = creation(key, time.Hour)
			}
			merge(t, s, w)
		}
		wantSurvey(t, s, "after creates", 4, 0)
		merge(t, s, deletion("deleted"), deletion("unknown"))
		wantSurvey(t, s, "after deletes", 3, 2)
		result, err := claimAll(t.Context(), s, "a")
		if err != nil || len(result.Claims) != 2 {
			t.Fatalf("claimed %+v, %v", result, err)
		}
		for _, c := range result.Claims {
			o := store.Settlement{Lease: c.Lease, Outcome: store.OutcomeDone}
			if c.Lease.Key == "kept" {
				o.Keep = time.Hour
			}
			if fenced := s.Fire(t.Context(), "a", terms(), []store.Fence{{Lease: c.Lease, Pops: 1}}); fenced[0].Status != store.FencePassed {
				t.Fatalf("fence: %+v", fenced[0])
			}
			if settled := s.Settle(t.Context(), "a", []store.Settlement{o}); !settled[0].Accepted {
				t.Fatalf("settle: %+v", settled[0])
			}
		}
		wantSurvey(t, s, "after two fired", 1, 3)
		brief := deletion("brief")
		brief.Life = time.Millisecond
		merge(t, s, brief)
		testkit.Eventually(t, testkit.Soon, "the burial of the tombstone whose life is over", func() bool {
			if _, err := claimAll(t.Context(), s, "a"); err != nil {
				t.Fatal(err)
			}
			return !r.client.HExists(t.Context(), s.keys[partitionOf("brief")].timers, "brief").Val()
		})
		wantSurvey(t, s, "after a burial", 1, 3)
		over := creation("unknown", time.Hour)
		over.State.Version = timer.VersionAt(time.Now().Add(time.Minute), 1)
		merge(t, s, over)
		wantSurvey(t, s, "after a create over a tombstone", 2, 2)
		if sums, err := s.Tags(t.Context(), "a", 99); err != nil || len(sums.ByType) != 0 {
			t.Errorf("the tags are %v, %v, want none", sums, err)
		}
	})
}

// A recount corrects the number of tombstones, as well as sums of tags.
func TestRecountCorrectsTheTombstones(t *testing.T) {
	t.Parallel()
	onBothRedis(t, func(t *testing.T, r *testRedis, s *Store) {
		merge(t, s, creation("waits", time.Hour), deletion("deleted"))
		p := partitionOf("deleted")
		for _, wrong := range []string{"5", "0", "-3", "many"} {
			r.client.HSet(t.Context(), s.keys[p].tags, tombstonesField, wrong)
			if wrong == "many" {
				break
			}
			recount(t, s, p, 1)
			wantSurvey(t, s, "after a recount of "+wrong, 1, 1)
		}
		wantSurvey(t, s, "with a number that is none", 2, 0)
	})
}
