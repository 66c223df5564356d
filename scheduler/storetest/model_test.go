package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

var errInjected = errors.New("injected")

func TestInjectedFaults(t *testing.T) {
	const lost = "executed, its answer lost"
	for _, when := range []string{"not executed", lost} {
		t.Run(when, func(t *testing.T) {
			model := NewModel()
			node := model.Open("node")
			var ops []string
			fail := func(op, shard string) error {
				if shard != "main" {
					t.Errorf("%s on shard %q", op, shard)
				}
				ops = append(ops, op)
				return errInjected
			}
			// each runs a call without a fault and then with the fault.
			each := func(do func() error) {
				t.Helper()
				if err := do(); err != nil {
					t.Fatalf("without a fault: %v", err)
				}
				if when == lost {
					model.Inject(nil, fail)
				} else {
					model.Inject(fail, nil)
				}
				err := do()
				model.Inject(nil, nil)
				if !errors.Is(err, errInjected) || !errors.Is(err, timer.ErrUnavailable) {
					t.Errorf("with a fault: %v", err)
				}
			}
			callAll(t, node, each)
			want := []string{"merge", "tell", "read", "survey", "ask", "claim", "fire", "settle", "beat", "leave", "tags", "recount", "told", "due counts", "sample"}
			if diff := cmp.Diff(want, ops); diff != "" {
				t.Errorf("hooked operations (-want +got):\n%s", diff)
			}
			results := node.Read(t.Context(), []store.Spot{{Shard: "main", Key: "k1"}, {Shard: "main", Key: "k2"}})
			if results[0].Err != nil {
				t.Errorf("the write without a fault: %v", results[0].Err)
			}
			if stored := results[1].Err == nil; stored != (when == lost) {
				t.Errorf("the write with a fault: %v", results[1].Err)
			}
		})
	}
}

// callAll makes every call twice: the second call may fail.
func callAll(t *testing.T, node store.Store, each func(do func() error)) {
	t.Helper()
	ctx, next := t.Context(), 0
	each(func() error {
		next++
		return node.Merge(ctx, []store.Write{onShard("main", write(fmt.Sprint("k", next), 1, oneShot(far)))})[0].Err
	})
	each(func() error { return node.Tell(ctx, "main", []store.Write{write("told", 1, oneShot(far))})[0].Err })
	each(func() error { return node.Read(ctx, []store.Spot{{Shard: "main", Key: "k1"}})[0].Err })
	each(func() error { _, err := node.Survey(ctx, "main"); return err })
	each(func() error { _, err := node.Ask(ctx, "main", nil); return err })
	each(func() error { _, err := node.Claim(ctx, "main", request()); return err })
	each(func() error { return node.Fire(ctx, "main", terms(far, far), make([]store.Fence, 1))[0].Err })
	each(func() error { return node.Settle(ctx, "main", make([]store.Settlement, 1))[0].Err })
	each(func() error { _, err := node.Beat(ctx, "main", store.Announcement{Clock: time.Now()}); return err })
	each(func() error { return node.Leave(ctx, "main") })
	each(func() error { _, err := node.Tags(ctx, "main", 1); return err })
	each(func() error { _, err := node.Recount(ctx, "main", 0, nil); return err })
	each(func() error { _, err := node.Told(ctx, "main"); return err })
	each(func() error { _, err := node.DueCounts(ctx, "main", time.Now(), time.Second, 1); return err })
	each(func() error { _, err := node.Sample(ctx, "main"); return err })
}

func TestModelKeepsTheTimeOfABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := NewModel().Open("node")
		due := time.Now().Add(far)
		if w := node.Merge(t.Context(), []store.Write{onShard("main", write("k", 1, oneShot(far)))})[0]; !w.Due.Equal(due) || w.Wait != far {
			t.Errorf("due %v, in %v, want %v, %v", w.Due, w.Wait, due, far)
		}
		claim := func() int {
			result, err := node.Claim(t.Context(), "main", request())
			if err != nil {
				t.Fatal(err)
			}
			return len(result.Claims)
		}
		time.Sleep(far - time.Millisecond)
		if n := claim(); n != 0 {
			t.Errorf("%d claimed a millisecond before due", n)
		}
		time.Sleep(time.Millisecond)
		if n := claim(); n != 1 {
			t.Errorf("%d claimed when due", n)
		}
	})
}

// A slow hook is a slow shard, and holds up calls to no other shard.
func TestSlowHookHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := NewModel("slow", "fast")
		node, began := model.Open("node"), time.Now()
		model.Inject(func(_, shard string) error {
			if shard == "slow" {
				time.Sleep(time.Minute)
			}
			return nil
		}, nil)
		slow := make(chan error)
		go func() { slow <- node.Leave(t.Context(), "slow") }()
		synctest.Wait()
		if err := node.Leave(t.Context(), "fast"); err != nil || time.Since(began) != 0 {
			t.Errorf("the other call: %v after %v", err, time.Since(began))
		}
		if err := <-slow; err != nil || time.Since(began) != time.Minute {
			t.Errorf("the slow call: %v after %v", err, time.Since(began))
		}
	})
}

func TestDeadLettersAreKept(t *testing.T) {
	clock := NewClock(time.UnixMilli(1_790_000_000_000))
	model := NewModel()
	model.SetClock(clock.Now)
	node := model.Open("node")
	for _, key := range []string{"first", "second"} {
		node.Merge(t.Context(), []store.Write{onShard("main", write(key, 1, oneShot(0)))})
		claimed, err := node.Claim(t.Context(), "main", request())
		if err != nil || len(claimed.Claims) != 1 {
			t.Fatalf("%s: %+v, %v", key, claimed, err)
		}
		lease := claimed.Claims[0].Lease
		node.Fire(t.Context(), "main", terms(far, far), []store.Fence{{Lease: lease, Pops: 1}})
		node.Settle(t.Context(), "main", []store.Settlement{
			{Lease: lease, Outcome: store.OutcomeDead, Reason: key + " failed"},
		})
		clock.Advance(time.Minute)
	}
	state := timer.State{Version: version(1), Seq: 1, Attempt: 1}
	want := []DeadLetter{
		{At: time.UnixMilli(1_790_000_000_000), Key: "first", Reason: "first failed", State: state},
		{At: time.UnixMilli(1_790_000_060_000), Key: "second", Reason: "second failed", State: state},
	}
	if diff := cmp.Diff(want, model.DeadLetters("main")); diff != "" {
		t.Errorf("dead letters (-want +got):\n%s", diff)
	}
}

// A key's ranking depends on the key alone, and every shard is some key's first.
func TestModelSpreadsTimers(t *testing.T) {
	model := NewModel("a", "b", "c")
	var firsts []string
	for _, key := range keys(100) {
		ranked := model.Open("n").Rank(key)
		if again := NewModel("a", "b", "c").Open("m").Rank(key); !slices.Equal(again, ranked) || len(ranked) != 3 {
			t.Errorf("%s is ranked %v and %v", key, ranked, again)
		}
		firsts = append(firsts, ranked[0])
	}
	slices.Sort(firsts)
	if got := slices.Compact(firsts); len(got) != 3 {
		t.Errorf("100 timers live on %v only", got)
	}
}
