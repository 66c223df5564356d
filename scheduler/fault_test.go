package scheduler_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"chronos/scheduler/dispatch"
	"chronos/scheduler/settings"
	"chronos/scheduler/store"
	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
)

// cutStore is a node's store that can be cut off: then no call of the node is executed.
type cutStore struct {
	store.Store
	cut atomic.Bool
}

var errCut = errors.Join(timer.ErrUnavailable, errors.New("cut off"))

func (s *cutStore) Claim(ctx context.Context, shard string, req store.ClaimRequest) (store.ClaimResult, error) {
	if s.cut.Load() {
		return store.ClaimResult{}, errCut
	}
	return s.Store.Claim(ctx, shard, req)
}

func (s *cutStore) Beat(ctx context.Context, shard string, own store.Announcement) (store.Announced, error) {
	if s.cut.Load() {
		return store.Announced{}, errCut
	}
	return s.Store.Beat(ctx, shard, own)
}

func (s *cutStore) Fire(ctx context.Context, shard string, terms store.FenceTerms, fences []store.Fence) []store.Fenced {
	if !s.cut.Load() {
		return s.Store.Fire(ctx, shard, terms, fences)
	}
	answers := make([]store.Fenced, len(fences))
	for i := range answers {
		answers[i].Err = errCut
	}
	return answers
}

func (s *cutStore) Settle(ctx context.Context, shard string, o []store.Settlement) []store.Settled {
	if !s.cut.Load() {
		return s.Store.Settle(ctx, shard, o)
	}
	answers := make([]store.Settled, len(o))
	for i := range answers {
		answers[i].Err = errCut
	}
	return answers
}

// TestDeadNode: a node that is cut off for good counts as dead.
func TestDeadNode(t *testing.T) {
	t.Run("before it fires: 1.5 s late", func(t *testing.T) {
		inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
			dying := &cutStore{Store: m.Open("dying")}
			first := startNode(t, dying, "dying", r)
			create(t, first, oneShot(time.Second))
			pass(970 * time.Millisecond) // the timer is in the wheel
			dying.cut.Store(true)
			second := startNode(t, m.Open("living"), "living", r)
			pass(10 * time.Second)
			seen := r.seen()
			if len(seen) != 1 || seen[0].node != "living" {
				t.Fatalf("attempts %+v, want one, by the living node", seen)
			}
			wantOnTime(t, seen, 1500*time.Millisecond)
			if !strings.Contains(second.log.String(), "suspected failure of dying for timer "+seen[0].ID.String()) {
				t.Errorf("no suspicion in the log:\n%s", second.log)
			}
		})
	})
	t.Run("while it fires: hold and 1 s late", func(t *testing.T) {
		inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
			dying := &cutStore{Store: m.Open("dying")}
			r.respond = func(a attempt) (time.Duration, dispatch.Delivered) {
				if a.node == "dying" {
					dying.cut.Store(true)
				}
				return time.Second, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
			}
			first := startNode(t, dying, "dying", r)
			create(t, first, oneShot(time.Second))
			pass(970 * time.Millisecond)
			second := startNode(t, m.Open("living"), "living", r)
			pass(20 * time.Second)
			seen := r.seen()
			if len(seen) != 2 || seen[1].node != "living" || seen[1].Attempt != 2 || seen[1].Seq != 1 {
				t.Fatalf("attempts %+v, want the second by the living node, visibly a repeat", seen)
			}
			wantOnTime(t, seen, 4500*time.Millisecond)
			dying.cut.Store(false)
			pass(10 * time.Second)
			if !strings.Contains(second.log.String(), "suspected failure of dying") {
				t.Errorf("no suspicion in the log:\n%s", second.log)
			}
		})
	})
}

func TestLateSettlementIsAWarningNothingMore(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
		slow := &cutStore{Store: m.Open("slow")}
		r.respond = func(a attempt) (time.Duration, dispatch.Delivered) {
			if a.Seq > 1 {
				return 0, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
			}
			if a.node == "slow" {
				slow.cut.Store(true) // nobody hears of the outcome until the other node has the timer
				return 0, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
			}
			slow.cut.Store(false)
			return 1500 * time.Millisecond, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
		}
		first := startNode(t, slow, "slow", r)
		create(t, first, recurring(time.Minute, 2))
		pass(59*time.Second + 980*time.Millisecond) // in the slow node's wheel, whenever the node polled
		startNode(t, m.Open("other"), "other", r)
		pass(30 * time.Second)
		if got := len(r.seen()); got != 2 {
			t.Fatalf("%d attempts at the first pop, want 2", got)
		}
		if log := first.log.String(); !strings.Contains(log, "taken over by another node") || !strings.Contains(log, "holder=other") {
			t.Errorf("no warning that names the new holder:\n%s", log)
		}
		pass(time.Minute)
		if got := r.seen(); len(got) != 3 || got[2].Seq != 2 {
			t.Errorf("attempts %+v, want the second pop once", got)
		}
	})
}

// TestLostAnswers: a call that was executed and whose answer was lost is sent again. The repetition
// counts nothing and fires nothing twice.
func TestLostAnswers(t *testing.T) {
	for _, op := range []string{"merge", "claim", "fire", "settle"} {
		t.Run(op, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
				n := startNode(t, m.Open("a"), "a", r)
				pass(time.Second)
				lost := 0
				m.Inject(nil, func(name, _ string) error {
					if name == op && lost < 2 {
						lost++
						return errors.New("answer lost")
					}
					return nil
				})
				create(t, n, recurring(5*time.Second, 2))
				pass(30 * time.Second)
				seen := r.seen()
				if len(seen) != 2 || seen[0].Attempt != 1 || seen[1].Attempt != 1 || lost != 2 {
					t.Fatalf("attempts %+v with %d answers lost, want each pop once with attempt 1", seen, lost)
				}
				wantOnTime(t, seen, 1200*time.Millisecond)
			})
		})
	}
}

func TestSilentShardDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, r := storetest.NewModel("sound", "silent"), &recorder{}
		n := startNode(t, m.Open("a"), "a", r)
		pass(time.Second)
		shardOf := map[string]string{}
		for range 60 {
			asked := oneShot(10 * time.Second)
			asked.ReplicationFactor = 1
			key := create(t, n, asked).ID.Key
			shardOf[key] = m.Open("probe").Rank(key)[0]
		}
		var silent atomic.Bool
		silent.Store(true)
		m.Inject(func(_, shard string) error {
			if shard == "silent" && silent.Load() {
				<-time.After(500 * time.Millisecond)
				return errors.New("no answer")
			}
			return nil
		}, nil)
		pass(20 * time.Second)
		if err := n.Ready(); err != nil {
			t.Errorf("not ready with a sound shard: %v", err)
		}
		silent.Store(false)
		pass(5 * time.Second)
		by := map[string]int{}
		for _, a := range r.seen() {
			by[shardOf[a.ID.Key]]++
			if shardOf[a.ID.Key] == "sound" {
				wantOnTime(t, []attempt{a}, maxLate)
			} else if a.late < 9*time.Second || a.late > 12*time.Second {
				t.Errorf("a timer of the silent shard came %v late, want it as soon as that was back", a.late)
			}
		}
		if by["sound"] == 0 || by["silent"] == 0 || by["sound"]+by["silent"] != 60 {
			t.Errorf("callbacks by shard %v, want all 60", by)
		}
	})
}

func TestAllShardsSilentIsNotReady(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
		n := startNode(t, m.Open("a"), "a", r)
		pass(time.Second)
		m.Inject(func(_, _ string) error { return errors.New("no answer") }, nil)
		pass(2 * time.Second)
		if err := n.Ready(); !errors.Is(err, timer.ErrUnavailable) {
			t.Errorf("ready: %v, want ErrUnavailable", err)
		}
		m.Inject(nil, nil)
		pass(2 * time.Second)
		if err := n.Ready(); err != nil {
			t.Errorf("not ready though the shard is back: %v", err)
		}
		if got := strings.Count(n.log.String(), "can't be used"); got != 1 {
			t.Errorf("%d log lines about one outage, want 1:\n%s", got, n.log)
		}
	})
}

func TestCallbackEndsWithTheFence(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
		r.respond = func(attempt) (time.Duration, dispatch.Delivered) {
			return time.Hour, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
		}
		n := startNode(t, m.Open("a"), "a", r)
		create(t, n, oneShot(time.Second))
		pass(10 * time.Minute)
		if got := len(r.seen()); got != 5 {
			t.Errorf("%d attempts at a receiver that hangs, want 5", got)
		}
		if dead := m.DeadLetters("main"); len(dead) != 1 || dead[0].Reason != "no answer within 2 s" {
			t.Errorf("dead letters %+v, want one that says no answer within 2 s", dead)
		}
	})
}

// TestSuspendedMachine: a node that slept through its 2 s sends nothing on the old fence (rule "no
// late callbacks").
func TestSuspendedMachine(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
		begin := time.Now()
		var slept atomic.Int64
		n := startNode(t, m.Open("a"), "a", r, func(c *settings.Config) {
			c.SinceBoot = func() time.Duration { return time.Hour + time.Since(begin) + time.Duration(slept.Load()) }
		})
		m.Inject(nil, func(op, _ string) error {
			if op == "fire" && slept.Load() == 0 {
				slept.Store(int64(time.Minute)) // between the fence and its answer
			}
			return nil
		})
		create(t, n, oneShot(time.Second))
		pass(20 * time.Second)
		seen := r.seen()
		if len(seen) != 1 || seen[0].Attempt != 2 {
			t.Errorf("attempts %+v, want one, on a second fence", seen)
		}
	})
}

func TestDeletedWhileInTheWheel(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
		n := startNode(t, m.Open("a"), "a", r)
		id := create(t, n, oneShot(time.Second)).ID
		pass(990 * time.Millisecond)
		receipt, err := n.Delete(t.Context(), id)
		if err != nil || receipt.InFlight {
			t.Fatalf("delete: %+v, %v; want it accepted and nothing in flight", receipt, err)
		}
		pass(10 * time.Second)
		if got := r.seen(); len(got) != 0 {
			t.Errorf("a deleted timer called back: %+v", got)
		}
	})
}

func TestUpdateWhileInFlight(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
		r.respond = func(attempt) (time.Duration, dispatch.Delivered) {
			return time.Second, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
		}
		n := startNode(t, m.Open("a"), "a", r)
		id := create(t, n, oneShot(time.Second)).ID
		pass(1500 * time.Millisecond)
		receipt, err := n.Replace(t.Context(), id, oneShot(200*time.Millisecond))
		if err != nil || !receipt.InFlight {
			t.Fatalf("replace: %+v, %v; want it accepted and in flight", receipt, err)
		}
		pass(10 * time.Second)
		seen := r.seen()
		if len(seen) != 2 || seen[1].Version <= seen[0].Version || seen[1].Seq != 1 || seen[1].Attempt != 1 {
			t.Fatalf("attempts %+v, want the new version to fire once too", seen)
		}
		wantOnTime(t, seen, maxLate)
	})
}

// TestLostAnswerOfAWriteThatFires: a create whose answer is lost fires before the node sends the
// create again. The create must not begin anew under another version: to a receiver the version
// would look like another timer.
func TestLostAnswerOfAWriteThatFires(t *testing.T) {
	for name, asked := range map[string]timer.Timer{"one-shot": oneShot(0), "recurring": recurring(100*time.Millisecond, 3)} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
				r.respond = func(attempt) (time.Duration, dispatch.Delivered) {
					return 900 * time.Millisecond, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
				}
				n := startNode(t, m.Open("a"), "a", r)
				pass(time.Second)
				lost := false
				m.Inject(nil, func(op, _ string) error {
					if op == "merge" && !lost {
						lost = true
						<-time.After(500 * time.Millisecond)
						return errors.New("no answer")
					}
					return nil
				})
				receipt := create(t, n, asked)
				pass(time.Minute)
				seqs := map[int]int{}
				for _, a := range r.seen() {
					if a.Version != r.seen()[0].Version {
						t.Errorf("pop %d came under version %v and %v", a.Seq, r.seen()[0].Version, a.Version)
					}
					seqs[a.Seq]++
				}
				for seq, times := range seqs {
					if times > 1 {
						t.Errorf("pop %d came %d times", seq, times)
					}
				}
				if !lost || receipt.Copies != 1 || len(seqs) == 0 {
					t.Errorf("lost %v, receipt %+v, pops %v", lost, receipt, seqs)
				}
			})
		})
	}
}
