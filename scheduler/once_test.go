package scheduler_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"chronos/scheduler/dispatch"
	"chronos/scheduler/settings"
	"chronos/scheduler/store"
	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
)

const idempotencyKey = "8e03978e-40d5-43dd-bc93-6894a57f9324"

func createOnce(t *testing.T, n *node, body string, asked timer.Timer) timer.Receipt {
	t.Helper()
	receipt, err := n.CreateOnce(t.Context(), idempotencyKey, []byte(body), asked)
	if err != nil {
		t.Fatalf("create once: %v", err)
	}
	return receipt
}

func wantReplay(t *testing.T, when string, first, again timer.Receipt) {
	t.Helper()
	if first.Replayed || !again.Replayed {
		t.Errorf("%s: replayed %v, then %v, want false, then true", when, first.Replayed, again.Replayed)
	}
	if first.Over || again.Over || again.ID != first.ID || !again.Due.Equal(first.Due) || again.Copies != first.Copies {
		t.Errorf("%s: answered %+v, want %+v as before", when, again, first)
	}
}

// wantOver is wantReplay for a timer that is over, as the answer says.
func wantOver(t *testing.T, when string, first, again timer.Receipt) {
	t.Helper()
	if !again.Over || again.Copies != 0 {
		t.Errorf("%s: over %v with %d copies, want true and none", when, again.Over, again.Copies)
	}
	again.Over, again.Copies = false, first.Copies
	wantReplay(t, when, first, again)
}

func TestIdempotencyKeyMakesOneTimer(t *testing.T) {
	for name, c := range map[string]struct {
		respond dispatch.Delivered
		most    int // attempts
		calls   int
	}{
		"that fires":      {dispatch.Delivered{Verdict: dispatch.VerdictDelivered}, 5, 1},
		"that is refused": {dispatch.Delivered{Verdict: dispatch.VerdictGone, Reason: "status 410"}, 5, 1},
		"that fails":      {dispatch.Delivered{Reason: "status 500"}, 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
				r.respond = func(attempt) (time.Duration, dispatch.Delivered) { return 0, c.respond }
				n := startNode(t, m.Open("a"), "a", r, func(cfg *settings.Config) {
					cfg.Attempts, cfg.IdempotencyLife = c.most, time.Hour
				})
				first := createOnce(t, n, "body", oneShot(time.Minute))
				wantReplay(t, "while it waits", first, createOnce(t, n, "body", oneShot(time.Minute)))
				pass(2 * time.Minute)
				for range 3 {
					wantOver(t, "after it was over", first, createOnce(t, n, "body", oneShot(time.Minute)))
					if _, err := n.CreateOnce(t.Context(), idempotencyKey, []byte("other"), oneShot(time.Minute)); !errors.Is(err, timer.ErrKeyReused) {
						t.Errorf("another body: %v, want ErrKeyReused", err)
					}
					pass(15 * time.Minute)
				}
				if calls := len(r.seen()); calls != c.calls {
					t.Errorf("%d callbacks, want %d", calls, c.calls)
				}
				pass(15 * time.Minute)
				if again := createOnce(t, n, "other", oneShot(time.Hour)); again.Replayed || again.ID.Key != first.ID.Key {
					t.Errorf("after its life: %+v, want a new timer under the same key", again)
				}
			})
		})
	}
}

// The same idempotency key makes a timer under each prefix, and each timer is found again.
func TestIdempotencyKeyUnderTwoPrefixes(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
		n := startNode(t, m.Open("a"), "a", r)
		made := func() []timer.Creation {
			all := make([]timer.Creation, 3)
			for i, prefix := range []string{"a.", "a.b.", ""} {
				all[i] = timer.Creation{Timer: oneShot(time.Minute), IdempotencyKey: idempotencyKey, Body: []byte("body" + prefix), Prefix: prefix}
			}
			n.CreateAll(t.Context(), all)
			return all
		}
		first, again := made(), made()
		for i, c := range first {
			if c.Err != nil || again[i].Err != nil || c.Receipt.ID.Key != c.Prefix+timer.OnceKey(idempotencyKey) {
				t.Fatalf("prefix %q: %+v, %v, %v", c.Prefix, c.Receipt, c.Err, again[i].Err)
			}
			wantReplay(t, "prefix "+c.Prefix, c.Receipt, again[i].Receipt)
		}
		pass(2 * time.Minute)
		if calls := len(r.seen()); calls != 3 {
			t.Errorf("%d callbacks, want 3", calls)
		}
	})
}

func TestIdempotencyKeyOutlivesUpdateAndDelete(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
		n := startNode(t, m.Open("a"), "a", r)
		first := createOnce(t, n, "body", oneShot(time.Minute))
		updated, err := n.Replace(t.Context(), first.ID, oneShot(30*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		if again := createOnce(t, n, "body", oneShot(time.Minute)); !again.Replayed || !again.Due.Equal(updated.Due) {
			t.Errorf("after an update: %+v, want the timer as it is now, due %v", again, updated.Due)
		}
		if _, err := n.Delete(t.Context(), timer.ID{Key: first.ID.Key}); err != nil {
			t.Fatal(err)
		}
		pass(50 * time.Minute)
		if again := createOnce(t, n, "body", oneShot(time.Minute)); !again.Replayed || again.ID != first.ID || !again.Over || again.Copies != 0 {
			t.Errorf("after a delete: %+v, want %v, replayed and over", again, first.ID)
		}
		if _, err := n.Lookup(t.Context(), first.ID); !errors.Is(err, timer.ErrNotFound) {
			t.Errorf("look up a deleted timer: %v, want ErrNotFound", err)
		}
		if calls := len(r.seen()); calls != 0 {
			t.Errorf("%d callbacks of a deleted timer", calls)
		}
	})
}

func TestIdempotencyKeyAtTheSameTime(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
		nodes := []*node{startNode(t, m.Open("a"), "a", r), startNode(t, m.Open("b"), "b", r)}
		var wg sync.WaitGroup
		receipts, errs := make([]timer.Receipt, 20), make([]error, 20)
		for i := range receipts {
			wg.Go(func() {
				receipts[i], errs[i] = nodes[i%2].CreateOnce(t.Context(), idempotencyKey, []byte("body"), oneShot(time.Second))
			})
		}
		wg.Wait()
		made := 0
		for i, receipt := range receipts {
			if errs[i] != nil || receipt.ID != receipts[0].ID || !receipt.Due.Equal(receipts[0].Due) {
				t.Errorf("answered %+v, %v, want %+v", receipt, errs[i], receipts[0])
			}
			if !receipt.Replayed {
				made++
			}
		}
		pass(time.Minute)
		if calls := len(r.seen()); made != 1 || calls != 1 {
			t.Errorf("%d made, %d callbacks, want one", made, calls)
		}
	})
}

// TestIdempotencyKeyWithoutAnswer: the shard's answer is lost, so the node sends the write again;
// the client repeats the request, too.
func TestIdempotencyKeyWithoutAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
		n := startNode(t, m.Open("a"), "a", r)
		pass(time.Second)
		losses := 0
		m.Inject(nil, func(op, _ string) error {
			if op == "merge" && losses < 7 {
				losses++
				<-time.After(100 * time.Millisecond)
				return errors.New("no answer")
			}
			return nil
		})
		if _, err := n.CreateOnce(t.Context(), idempotencyKey, []byte("body"), oneShot(0)); !errors.Is(err, timer.ErrUnavailable) {
			t.Errorf("all answers lost: %v, want ErrUnavailable", err)
		}
		if receipt := createOnce(t, n, "body", oneShot(0)); !receipt.Replayed {
			t.Error("the client's repetition is not answered as one")
		}
		pass(time.Minute)
		if calls := len(r.seen()); calls != 1 || losses != 7 {
			t.Errorf("%d callbacks after %d lost answers, want 1 after 7", calls, losses)
		}
	})
}

// TestResentWriteIsNoReplay: a write that the node repeats is no repetition of the client.
func TestResentWriteIsNoReplay(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
		n := startNode(t, m.Open("a"), "a", r)
		lost := false
		m.Inject(nil, func(op, _ string) error {
			if op == "merge" && !lost {
				lost = true
				return errors.New("no answer")
			}
			return nil
		})
		if receipt := createOnce(t, n, "body", oneShot(time.Hour)); receipt.Replayed || !lost {
			t.Errorf("lost %v, answered %+v, want it not replayed", lost, receipt)
		}
	})
}

// TestOverloadAfterALostAnswer: the first try may have stored the timer, so the answer to the
// second try must not say that nothing was done.
func TestOverloadAfterALostAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
		backend := &failingMerge{Store: m.Open("a"), errs: []error{timer.ErrUnavailable, timer.ErrOverloaded}}
		n := startNode(t, backend, "a", r)
		_, err := n.Create(t.Context(), oneShot(0))
		if !errors.Is(err, timer.ErrUnavailable) || errors.Is(err, timer.ErrOverloaded) {
			t.Errorf("create: %v, want ErrUnavailable", err)
		}
		backend.errs = []error{timer.ErrOverloaded}
		if _, err := n.Create(t.Context(), oneShot(0)); !errors.Is(err, timer.ErrOverloaded) || errors.Is(err, timer.ErrUnavailable) {
			t.Errorf("create: %v, want ErrOverloaded alone", err)
		}
		pass(time.Minute)
		if calls := len(r.seen()); calls != 1 {
			t.Errorf("%d callbacks, want that of the write whose answer was lost", calls)
		}
	})
}

// failingMerge carries out a merge and answers with an error, until the errors are used up. With
// the error overloaded nothing is done.
type failingMerge struct {
	store.Store
	errs []error
}

func (f *failingMerge) Merge(ctx context.Context, writes []store.Write) []store.Written {
	if len(f.errs) == 0 {
		return f.Store.Merge(ctx, writes)
	}
	err := f.errs[0]
	f.errs = f.errs[1:]
	if !errors.Is(err, timer.ErrOverloaded) {
		f.Store.Merge(ctx, writes)
	}
	return []store.Written{{Err: err}}
}

func TestIdempotencyKeyOfALivingTimer(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
		n := startNode(t, m.Open("a"), "a", r)
		id := timer.ID{Key: timer.OnceKey(idempotencyKey)}
		put, err := n.Replace(t.Context(), id, oneShot(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.CreateOnce(t.Context(), idempotencyKey, []byte("body"), oneShot(0)); !errors.Is(err, timer.ErrKeyReused) {
			t.Errorf("create once where a timer of a client's own lives: %v, want ErrKeyReused", err)
		}
		if found, err := n.Lookup(t.Context(), id); err != nil || !found.Due.Equal(put.Due) {
			t.Errorf("it is now %+v, %v, want it unchanged", found, err)
		}
	})
}

// TestOnceKeyStays: every version of chronos makes the same key.
func TestOnceKeyStays(t *testing.T) {
	if got, want := timer.OnceKey(idempotencyKey), "ik-d77da8028f3c5a13752873cb9c7581d5"; got != want {
		t.Errorf("key %s, want %s", got, want)
	}
	if timer.OnceKey("a") == timer.OnceKey("b") {
		t.Error("two idempotency keys make one timer's key")
	}
}

// TestNothingStaysOfWhatIsOver: only an idempotency key outlives its timer for long.
func TestNothingStaysOfWhatIsOver(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
		backend := m.Open("a")
		n := startNode(t, backend, "a", r, func(cfg *settings.Config) { cfg.Attempts = 1 })
		r.respond = func(a attempt) (time.Duration, dispatch.Delivered) {
			if a.Callback.Opaque == "fails" {
				return 0, dispatch.Delivered{Reason: "status 500"}
			}
			return 0, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
		}
		failing := oneShot(time.Second)
		failing.Callback.Opaque = "fails"
		for _, asked := range []timer.Timer{oneShot(time.Second), failing, recurring(time.Second, 2)} {
			create(t, n, asked)
		}
		createOnce(t, n, "body", oneShot(time.Second))
		pass(15 * time.Second)
		survey, err := backend.Survey(t.Context(), backend.Shards()[0])
		if err != nil || survey.Pending != 0 || survey.Tombstones != 1 || len(r.seen()) != 5 {
			t.Errorf("%+v is left after %d callbacks, %v, want the idempotency key's tombstone alone after 5", survey, len(r.seen()), err)
		}
	})
}

// TestFailureIsToldWhileRetrying: the failure is gone once an attempt has succeeded.
func TestFailureIsToldWhileRetrying(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
		r.respond = func(a attempt) (time.Duration, dispatch.Delivered) {
			if a.Seq == 1 && a.Attempt < 3 {
				return 0, dispatch.Delivered{Reason: "status 50" + string(rune('0'+a.Attempt)), RetryAfter: 5 * time.Second}
			}
			return 0, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
		}
		n := startNode(t, m.Open("a"), "a", r)
		id := create(t, n, recurring(time.Minute, 2)).ID
		for _, c := range []struct {
			at     time.Duration
			reason string
		}{{time.Minute + time.Second, "status 501"}, {6 * time.Second, "status 502"}, {15 * time.Second, ""}} {
			pass(c.at)
			found, err := n.Lookup(t.Context(), id)
			if err != nil || found.Record.Failure.Reason != c.reason {
				t.Errorf("%+v, %v, want the failure %q", found.Record, err, c.reason)
			}
		}
	})
}

func TestFailureIsTold(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
		r.respond = func(a attempt) (time.Duration, dispatch.Delivered) {
			if a.Seq == 1 {
				return 0, dispatch.Delivered{Reason: "status 503"}
			}
			return 0, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
		}
		n := startNode(t, m.Open("a"), "a", r, func(cfg *settings.Config) { cfg.Attempts = 1 })
		id := create(t, n, recurring(time.Minute, 3)).ID
		lookup := func() store.Record {
			t.Helper()
			found, err := n.Lookup(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			return found.Record
		}
		if got := lookup().Failure; got != (store.Failure{}) {
			t.Errorf("before the first pop: %+v, want none", got)
		}
		pass(time.Minute + time.Second)
		if got := lookup(); got.Failure.Reason != "status 503" || got.Failure.Node != "a" || got.State.Seq != 2 {
			t.Errorf("after the first pop was given up: %+v, want its reason, and pop 2 to come", got)
		}
		pass(time.Minute)
		if got := lookup(); got.Failure != (store.Failure{}) || got.State.Seq != 3 {
			t.Errorf("after the second pop: %+v, want no failure, and pop 3 to come", got)
		}
	})
}
