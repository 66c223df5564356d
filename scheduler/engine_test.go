package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"chronos/scheduler"
	"chronos/scheduler/dispatch"
	"chronos/scheduler/settings"
	"chronos/scheduler/store"
	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
	"chronos/scheduler/verify/testkit"
)

// attempt is one delivery that a recorder saw.
type attempt struct {
	dispatch.Delivery
	node string
	at   time.Time
	late time.Duration // from the due time
}

// recorder is a Deliverer for all nodes of a test.
type recorder struct {
	mu       sync.Mutex
	attempts []attempt
	ended    []attempt // attempts whose context ended first, at the instant of the end
	// respond says how long an attempt takes and how the attempt ends; nil for delivered at once.
	respond func(attempt) (time.Duration, dispatch.Delivered)
	// stubborn makes an attempt take so long whatever its context says, like an attempt that can't
	// be taken back.
	stubborn bool
}

func (r *recorder) seen() []attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]attempt(nil), r.attempts...)
}

// told are the attempts that heard of the end of their time.
func (r *recorder) told() []attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]attempt(nil), r.ended...)
}

func (r *recorder) tell(a attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a.at = time.Now()
	r.ended = append(r.ended, a)
}

// record keeps an attempt and says how to answer the attempt.
func (r *recorder) record(a attempt) func(attempt) (time.Duration, dispatch.Delivered) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attempts = append(r.attempts, a)
	return r.respond
}

// on is the recorder as one node's Deliverer.
func (r *recorder) on(node string) dispatch.Deliverer { return nodeRecorder{r, node} }

type nodeRecorder struct {
	*recorder
	node string
}

func (nodeRecorder) Check(c timer.Callback) error {
	if c.URI == "http://denied/" {
		return &timer.InvalidError{Pointer: "/callback/http/uri", Code: "uri-denied"}
	}
	return nil
}

func (nodeRecorder) Destination(c timer.Callback) string { return c.URI }

func (r nodeRecorder) Deliver(ctx context.Context, d dispatch.Delivery) dispatch.Delivered {
	if ctx.Err() != nil {
		return dispatch.Delivered{Reason: "too late to send"}
	}
	now := time.Now()
	a := attempt{Delivery: d, node: r.node, at: now, late: now.Sub(d.Due)}
	respond := r.record(a)
	takes, ends := time.Duration(0), dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
	if respond != nil {
		takes, ends = respond(a)
	}
	if takes <= 0 {
		// Not by a timer that has run out already: in a bubble, with the race detector, Go 1.26.8
		// crashed in timer.maybeRunChan once.
		return ends
	}
	over := time.After(takes)
	select {
	case <-over:
		return ends
	case <-ctx.Done():
		r.tell(a)
		if r.stubborn {
			<-over
			return ends
		}
		return dispatch.Delivered{Reason: "no answer within 2 s"}
	}
}

// node is an engine that runs until the test ends or stop is called.
type node struct {
	*scheduler.Scheduler
	stop func()
	log  *testkit.Log
}

func startNode(t *testing.T, backend store.Store, name string, r *recorder, tune ...func(*settings.Config)) *node {
	t.Helper()
	log := &testkit.Log{}
	config := settings.Default(name, slog.New(slog.NewTextHandler(log, nil)))
	begin := time.Now()
	config.SinceBoot = func() time.Duration { return time.Hour + time.Since(begin) }
	for _, change := range tune {
		change(&config)
	}
	s, err := scheduler.New(config, backend, r.on(name))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	n := &node{Scheduler: s, log: log, stop: func() { cancel(); <-done }}
	t.Cleanup(n.stop)
	return n
}

// pass lets virtual time pass and everything settle.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func oneShot(interval time.Duration) timer.Timer {
	return timer.Timer{Interval: interval, ReplicationFactor: 2, Callback: timer.Callback{URI: "http://receiver/", Opaque: "body"}}
}

func recurring(interval time.Duration, pops int) timer.Timer {
	t := oneShot(interval)
	t.RepeatFor = interval * time.Duration(pops)
	return t
}

func create(t *testing.T, n *node, asked timer.Timer) timer.Receipt {
	t.Helper()
	receipt, err := n.Create(t.Context(), asked)
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	return receipt
}

// inBubble runs a test in a bubble with a model and a recorder.
func inBubble(t *testing.T, test func(t *testing.T, m *storetest.Model, r *recorder)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, storetest.NewModel(), &recorder{}) })
}

// maxLate is what the wheel's rounding and the model's clock may add.
const maxLate = 2 * time.Millisecond

func wantOnTime(t *testing.T, attempts []attempt, bound time.Duration) {
	t.Helper()
	for _, a := range attempts {
		if a.late < 0 || a.late > bound {
			t.Errorf("pop %d of %s came %v after its time, want from 0 to %v", a.Seq, a.ID.Key, a.late, bound)
		}
	}
}

func TestTimersFireOnTime(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
		n := startNode(t, m.Open("a"), "a", r)
		pass(50 * time.Millisecond)
		intervals := []time.Duration{0, time.Millisecond, 7 * time.Millisecond, 90 * time.Millisecond, 131 * time.Millisecond, time.Second, time.Hour}
		due := map[string]time.Time{}
		for _, interval := range intervals {
			receipt := create(t, n, oneShot(interval))
			due[receipt.ID.Key] = receipt.Due
			if receipt.Copies != 1 || receipt.Due.Before(time.Now().Add(interval)) {
				t.Errorf("interval %v: %d copies, due %v, want 1 and no sooner than asked", interval, receipt.Copies, receipt.Due)
			}
		}
		pass(2 * time.Hour)
		seen := r.seen()
		if len(seen) != len(intervals) {
			t.Fatalf("%d callbacks for %d timers", len(seen), len(intervals))
		}
		wantOnTime(t, seen, maxLate)
		for _, a := range seen {
			if a.Seq != 1 || a.Attempt != 1 || !a.Due.Equal(due[a.ID.Key]) || a.Callback.Opaque != "body" {
				t.Errorf("callback %+v, want pop 1, attempt 1, due %v", a, due[a.ID.Key])
			}
			if _, err := n.Lookup(t.Context(), a.ID); !errors.Is(err, timer.ErrNotFound) {
				t.Errorf("after its only pop a timer is still there: %v", err)
			}
		}
	})
}

func TestDeniedCallbackIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
		n := startNode(t, m.Open("a"), "a", r)
		denied := oneShot(0)
		denied.Callback.URI = "http://denied/"
		_, created := n.Create(t.Context(), denied)
		_, once := n.CreateOnce(t.Context(), "key", nil, denied)
		_, replaced := n.Replace(t.Context(), timer.ID{Key: "k"}, denied)
		for name, err := range map[string]error{"create": created, "create once": once, "replace": replaced} {
			if refused, ok := errors.AsType[*timer.InvalidError](err); !ok || refused.Code != "uri-denied" {
				t.Errorf("%s: %v, want it refused", name, err)
			}
		}
		pass(time.Minute)
		if calls := len(r.seen()); calls != 0 {
			t.Errorf("%d callbacks", calls)
		}
	})
}

func TestInstantsAreWithin100Years(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
		n := startNode(t, m.Open("a"), "a", r)
		asked := oneShot(0)
		asked.At = time.Now().Add(timer.MaxInterval)
		create(t, n, asked)
		asked.At = asked.At.Add(time.Millisecond)
		_, err := n.Create(t.Context(), asked)
		if refused, ok := errors.AsType[*timer.InvalidError](err); !ok || refused.Code != "at-too-late" || refused.Pointer != "/timing/at" {
			t.Errorf("over 100 years ahead: %v, want it refused", err)
		}
	})
}

func TestRecurringTimerStaysOnItsGrid(t *testing.T) {
	for _, interval := range []time.Duration{100 * time.Millisecond, 333 * time.Millisecond, 10 * time.Second} {
		inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
			n := startNode(t, m.Open("a"), "a", r)
			first := create(t, n, recurring(interval, 7)).Due
			pass(8*interval + time.Second)
			seen := r.seen()
			if len(seen) != 7 {
				t.Fatalf("%d pops, want 7", len(seen))
			}
			wantOnTime(t, seen, maxLate)
			for i, a := range seen {
				if want := first.Add(time.Duration(i) * interval); a.Seq != i+1 || !a.Due.Equal(want) {
					t.Errorf("pop %d is due at %v, want pop %d at %v", a.Seq, a.Due, i+1, want)
				}
			}
		})
	}
}

func TestPopsOfAnOutageAreMadeUpForAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
		n := startNode(t, m.Open("a"), "a", r)
		create(t, n, recurring(10*time.Second, 10))
		pass(25 * time.Second) // two pops
		n.stop()
		pass(50 * time.Second) // pops 3 to 7 are missed
		startNode(t, m.Open("b"), "b", r)
		pass(2 * time.Second)
		if want := []int{1, 2, 3, 4, 5, 6, 7}; !slices.Equal(r.pops(), want) {
			t.Errorf("pops %v, want %v", r.pops(), want)
		}
		pass(time.Minute)
		if want := []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}; !slices.Equal(r.pops(), want) {
			t.Errorf("pops %v, want %v", r.pops(), want)
		}
	})
}

func TestFailedCallbackIsTriedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
		r.respond = func(a attempt) (time.Duration, dispatch.Delivered) {
			switch a.Attempt {
			case 1:
				return 0, dispatch.Delivered{Reason: "status 500"}
			case 2:
				return 0, dispatch.Delivered{Reason: "status 503", RetryAfter: 42 * time.Second}
			}
			return 0, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
		}
		n := startNode(t, m.Open("a"), "a", r)
		create(t, n, oneShot(time.Second))
		pass(5 * time.Minute)
		seen := r.seen()
		if len(seen) != 3 {
			t.Fatalf("%d attempts, want 3", len(seen))
		}
		for i, a := range seen {
			if a.Attempt != i+1 || a.Seq != 1 || a.Version != seen[0].Version || !a.Due.Equal(seen[0].Due) {
				t.Errorf("attempt %d is %+v, want the same pop with attempt %d", i, a, i+1)
			}
		}
		if wait := seen[1].at.Sub(seen[0].at); wait > time.Second+maxLate {
			t.Errorf("the second attempt came after %v, want at most the 1 s of the first backoff", wait)
		}
		if wait := seen[2].at.Sub(seen[1].at); wait < 42*time.Second || wait > 42*time.Second+maxLate {
			t.Errorf("the third attempt came after %v, want the 42 s that were asked for", wait)
		}
	})
}

func TestUsedUpAttempts(t *testing.T) {
	fail := func(attempt) (time.Duration, dispatch.Delivered) {
		return 0, dispatch.Delivered{Reason: "status 500"}
	}
	t.Run("a one-shot timer goes to the dead letters", func(t *testing.T) {
		inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
			r.respond = fail
			n := startNode(t, m.Open("a"), "a", r)
			id := create(t, n, oneShot(time.Second)).ID
			pass(10 * time.Minute)
			if got := len(r.seen()); got != 5 {
				t.Errorf("%d attempts, want 5", got)
			}
			dead := m.DeadLetters("main")
			if len(dead) != 1 || dead[0].Key != id.Key || dead[0].Reason != "status 500" {
				t.Errorf("dead letters %+v, want one of %s for status 500", dead, id.Key)
			}
			if _, err := n.Lookup(t.Context(), id); !errors.Is(err, timer.ErrNotFound) {
				t.Errorf("a dead timer is still there: %v", err)
			}
		})
	})
	t.Run("a recurring timer goes on", func(t *testing.T) {
		inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
			r.respond = fail
			n := startNode(t, m.Open("a"), "a", r)
			create(t, n, recurring(10*time.Minute, 2))
			pass(time.Hour)
			var got []string
			for _, a := range r.seen() {
				got = append(got, fmt.Sprintf("%d.%d", a.Seq, a.Attempt))
			}
			if want := "[1.1 1.2 1.3 1.4 1.5 2.1 2.2 2.3 2.4 2.5]"; fmt.Sprint(got) != want {
				t.Errorf("pops and attempts %v, want %v", got, want)
			}
			if dead := m.DeadLetters("main"); len(dead) != 0 {
				t.Errorf("dead letters of a recurring timer: %+v", dead)
			}
		})
	})
	t.Run("a retry never runs past the next pop", func(t *testing.T) {
		inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
			r.respond = func(attempt) (time.Duration, dispatch.Delivered) {
				return 0, dispatch.Delivered{Reason: "status 503", RetryAfter: time.Hour}
			}
			n := startNode(t, m.Open("a"), "a", r)
			create(t, n, recurring(10*time.Second, 4))
			pass(2 * time.Minute)
			seen := r.seen()
			if len(seen) != 4 {
				t.Fatalf("%d attempts before the retry of the last pop, want one a pop", len(seen))
			}
			wantOnTime(t, seen, maxLate)
		})
	})
}

func TestGoneEndsTimer(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
		r.respond = func(attempt) (time.Duration, dispatch.Delivered) {
			return 0, dispatch.Delivered{Verdict: dispatch.VerdictGone, Reason: "status 410"}
		}
		n := startNode(t, m.Open("a"), "a", r)
		id := create(t, n, recurring(time.Second, 10)).ID
		pass(time.Minute)
		if got := len(r.seen()); got != 1 {
			t.Errorf("%d callbacks to a receiver that wants no more, want 1", got)
		}
		if _, err := n.Lookup(t.Context(), id); !errors.Is(err, timer.ErrNotFound) {
			t.Errorf("the timer is still there: %v", err)
		}
	})
}

func TestRetryGoesToAnotherNode(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
		r.respond = func(a attempt) (time.Duration, dispatch.Delivered) {
			if a.node == "broken" {
				return 0, dispatch.Delivered{Reason: "connection refused"}
			}
			return 0, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
		}
		startNode(t, m.Open("broken"), "broken", r)
		n := startNode(t, m.Open("sound"), "sound", r)
		pass(1500 * time.Millisecond) // the nodes know each other
		const count = 200
		for i := range count {
			create(t, n, oneShot(time.Second+time.Duration(i)*10*time.Millisecond))
		}
		pass(time.Minute)
		byNode := map[string]int{}
		for _, a := range r.seen() {
			byNode[a.node]++
			if a.Attempt > 1 && a.node == "broken" {
				t.Errorf("attempt %d was made by the node whose attempt had failed", a.Attempt)
			}
		}
		if byNode["sound"] != count || byNode["broken"] < count/10 {
			t.Errorf("attempts %v: want %d by the sound node, and some by the broken one before", byNode, count)
		}
	})
}
