package processtest

import (
	"context"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"chronos/scheduler/verify/heldup"
	"chronos/scheduler/verify/testkit"
	"chronos/scheduler/webhook/webhooktest"
)

const (
	hold      = 3500 * time.Millisecond
	deathCost = 1500 * time.Millisecond // promise 3: the lateness when a node dies before firing
	patience  = 100 * time.Millisecond  // between a bound by the shard's clock and an arrival here
)

// leasesOf are the timers that a node holds: timers in the wheel, and timers that have passed
// the fence.
func leasesOf(t *testing.T, client *redis.Client, node string) (waiting, underWay []string) {
	t.Helper()
	ctx := t.Context()
	var pages []*redis.MapStringStringCmd
	pipe := client.Pipeline()
	for p := range 16 {
		pages = append(pages, pipe.HGetAll(ctx, "chronos:{http."+twoDigits(p)+"}:leases"))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		for key, lease := range page.Val() {
			switch {
			case !strings.HasPrefix(lease, node+":"):
			case strings.Contains(lease, " "):
				underWay = append(underWay, key)
			default:
				waiting = append(waiting, key)
			}
		}
	}
	return waiting, underWay
}

// leasesOfStopped are the leases of a node that was just stopped, once Redis has carried out all
// earlier requests of the node. Three reads in a row must give the same leases, before the
// second node takes the leases over.
func leasesOfStopped(t *testing.T, client *redis.Client, node string) (waiting, underWay []string) {
	t.Helper()
	same := 0
	testkit.Eventually(t, 5*time.Second, "the leases of a stopped node stand still", func() bool {
		w, u := leasesOf(t, client, node)
		slices.Sort(w)
		slices.Sort(u)
		if same++; !slices.Equal(w, waiting) || !slices.Equal(u, underWay) {
			same = 0
		}
		waiting, underWay = w, u
		return same == 3
	})
	return waiting, underWay
}

func twoDigits(n int) string { return string([]byte{'0' + byte(n/10), '0' + byte(n%10)}) }

func enough(waiting, underWay []string) bool { return len(waiting) >= 100 && len(underWay) >= 50 }

// TestKilledNode kills a node that has timers in its wheel and callbacks under way: the second
// node fires all of the timers, in the promised time.
func TestKilledNode(t *testing.T) {
	t.Parallel()
	store := testkit.StartRedis(t)
	nodes := []*nodeProcess{startNode(t, store.URL), startNode(t, store.URL)}
	receiver := webhooktest.New(t)
	receiver.Respond(func(c webhooktest.Call) webhooktest.Answer {
		if c.Target == "/slow" {
			return webhooktest.Answer{Delay: 1800 * time.Millisecond}
		}
		return webhooktest.Answer{}
	})
	client := newAPI(t)
	// Slow callbacks are under way all the time. Some hundred quick timers are always within a
	// wheel's horizon, however long the creating takes. The timers are few enough: a single node
	// and the receiver can finish the timers before the takeover.
	const slow, quick = 400, 2000
	created, begin := make([]answer, slow+quick), time.Now().Add(5*time.Second)
	inParallel(len(created), 32, func(i int) {
		at, path := time.Duration(i%20)*10*time.Millisecond, "/slow"
		if i >= slow {
			at, path = 100*time.Millisecond+time.Duration(i%200)*5*time.Millisecond, "/quick"
		}
		created[i] = client.create(t, nodes[i%2], time.Until(begin.Add(at)).Round(time.Millisecond), receiver.URL()+path, "")
	})
	if t.Failed() {
		t.FailNow()
	}

	var killed *nodeProcess
	var waiting, underWay []string
	testkit.Eventually(t, 20*time.Second, "a node has 100 timers in its wheel and 50 callbacks under way", func() bool {
		for _, n := range nodes {
			if waiting, underWay = leasesOf(t, store.Admin, n.id); !enough(waiting, underWay) {
				continue
			}
			// Stopped, so that the node has the counted leases when the node is killed.
			n.Signal(syscall.SIGSTOP)
			if waiting, underWay = leasesOfStopped(t, store.Admin, n.id); enough(waiting, underWay) {
				killed = n
				return true
			}
			n.Signal(syscall.SIGCONT)
		}
		return false
	})
	watch, err := heldup.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	killed.Signal(syscall.SIGKILL)
	killedAt := time.Now()
	<-killed.Done
	t.Logf("killed with %d timers in its wheel and %d callbacks under way", len(waiting), len(underWay))

	due := make(map[string]time.Time, len(created))
	for _, c := range created {
		due[c.id.Key] = c.due
	}
	// Some callbacks under way had been answered, but not settled.
	all := receiver.WaitFor(t, 30*time.Second, func(calls []webhooktest.Call) bool {
		return len(keysOf(calls)) == len(due) && len(keysOf(after(calls, killedAt, underWay))) == len(underWay)
	})
	heldUp := watch.Stop().Longest()
	t.Logf("the test itself was held up for %v at most", heldUp)
	more := patience + 2*heldUp // the survivor and Redis wait for a processor as well
	first := firstArrivals(all)
	within(t, "waited in the dead node's wheel", waiting, first, due, deathCost+more)
	again := firstArrivals(after(all, killedAt, underWay))
	within(t, "were under way on the dead node", underWay, again, due, hold+time.Second+more)
	for key, at := range first {
		if early := due[key].Sub(at); early > time.Millisecond {
			t.Errorf("timer %s came %v early", key, early)
		}
	}
	survivor := nodes[0]
	if survivor == killed {
		survivor = nodes[1]
	}
	if want := "suspected failure of " + killed.id + " for timer"; !strings.Contains(survivor.Log.String(), want) {
		t.Errorf("the surviving node's log has no line %q", want)
	}
}

func keysOf(calls []webhooktest.Call) map[string]bool {
	keys := make(map[string]bool, len(calls))
	for _, c := range calls {
		keys[c.Key()] = true
	}
	return keys
}

// after are the calls for the keys that arrived after an instant.
func after(calls []webhooktest.Call, at time.Time, keys []string) []webhooktest.Call {
	wanted := make(map[string]bool, len(keys))
	for _, key := range keys {
		wanted[key] = true
	}
	var out []webhooktest.Call
	for _, c := range calls {
		if wanted[c.Key()] && c.Arrived.After(at) {
			out = append(out, c)
		}
	}
	return out
}

func firstArrivals(calls []webhooktest.Call) map[string]time.Time {
	first := make(map[string]time.Time, len(calls))
	for _, c := range calls {
		if at, ok := first[c.Key()]; !ok || c.Arrived.Before(at) {
			first[c.Key()] = c.Arrived
		}
	}
	return first
}

func within(t *testing.T, what string, keys []string, arrivals, due map[string]time.Time, bound time.Duration) {
	t.Helper()
	var worst time.Duration
	for _, key := range keys {
		worst = max(worst, arrivals[key].Sub(due[key]))
	}
	t.Logf("of %d that %s, the worst came %v after its time", len(keys), what, worst)
	if worst > bound {
		t.Errorf("those that %s came up to %v late, want at most %v", what, worst, bound)
	}
}

// TestStoppedNode stops a node by SIGTERM under load: no timer is lost or called twice, and the
// node ends by itself.
func TestStoppedNode(t *testing.T) {
	t.Parallel()
	store := testkit.StartRedis(t)
	leaving, staying := startNode(t, store.URL), startNode(t, store.URL)
	receiver := webhooktest.New(t)
	receiver.Respond(func(c webhooktest.Call) webhooktest.Answer {
		return webhooktest.Answer{Delay: time.Duration(c.Number%200) * time.Millisecond}
	})
	client := newAPI(t)
	const count = 3000
	created := make([]answer, count)
	stopped := make(chan error, 1)
	begun := make(chan struct{})
	go func() {
		<-begun
		stopped <- leaving.Stop(10 * time.Second)
	}()
	inParallel(count, 16, func(i int) {
		if i == count/2 {
			close(begun)
		}
		node := staying
		if i < count/3 {
			node = leaving
		}
		created[i] = client.create(t, node, 300*time.Millisecond, receiver.URL(), "")
	})
	if err := <-stopped; err != nil {
		t.Errorf("the node that was asked to stop ended with %v", err)
	}
	calls := receiver.WaitFor(t, 20*time.Second, webhooktest.AtLeast(count))
	calls = quiet(t, receiver, calls)
	if got := len(keysOf(calls)); got != count {
		t.Errorf("%d of %d timers called back", got, count)
	}
	if len(calls) != count {
		t.Errorf("%d callbacks for %d timers", len(calls), count)
	}
	if strings.Contains(staying.Log.String(), "suspected failure") {
		t.Error("the node that stayed suspected a failure, though the other had given everything back")
	}
}

// quiet waits until no timer is left in the store, and returns all calls.
func quiet(t *testing.T, receiver *webhooktest.Receiver, calls []webhooktest.Call) []webhooktest.Call {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	// A second callback would come at the end of a lease.
	more, err := receiver.Wait(ctx, webhooktest.AtLeast(len(calls)+1))
	if err == nil {
		t.Errorf("another callback came: %s", more[len(calls)])
	}
	return more
}
