package processtest

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"chronos/api/ui/uitest"
	"chronos/scheduler/verify/heldup"
	"chronos/scheduler/verify/testkit"
	"chronos/scheduler/webhook/webhooktest"
)

// shown are the pages of a node in a browser.
type shown struct {
	*uitest.Browser

	t    *testing.T
	node *nodeProcess
}

// open goes to a page.
func (s *shown) open(page string) {
	s.t.Helper()
	if status := s.Goto(s.node.admin + "/ui/" + page); status != http.StatusOK {
		s.t.Fatalf("%s: status %d", page, status)
	}
}

// await waits until a page that stays open shows a text, for so long at most.
func (s *shown) await(within time.Duration, selector, text string) (took time.Duration) {
	s.t.Helper()
	begun := time.Now()
	testkit.Eventually(s.t, within, text+" in "+selector, func() bool { return strings.Contains(s.all(selector), text) })
	return time.Since(begun)
}

// all is the text of all elements of a selector.
func (s *shown) all(selector string) (text string) {
	s.t.Helper()
	s.Evaluate(`Array.from(document.querySelectorAll(`+strconv.Quote(selector)+`)).map(e => e.innerText).join('\n')`, &text)
	return text
}

// TestDashboardOfACluster goes the way of an operator through the dashboard of real nodes and Redis instances, while
// 1,000 callbacks a second are made.
func TestDashboardOfACluster(t *testing.T) {
	t.Parallel()
	browser := uitest.StartBrowser(t) // first, since the test may be skipped here
	redis, nodes := threeRedisTwoNodes(t)
	receiver, watch, begun := webhooktest.New(t), heldup.Begin(t), time.Now()
	var mended atomic.Bool
	receiver.Respond(func(c webhooktest.Call) webhooktest.Answer {
		if strings.HasPrefix(c.Key(), "order-") && !mended.Load() {
			return webhooktest.Answer{Status: http.StatusServiceUnavailable}
		}
		return webhooktest.Answer{}
	})
	put := func(key, timing, retry string) {
		body := fmt.Sprintf(`{"timing":%s,"callback":{"http":{"uri":"%s/%s","opaque":"<img src=x onerror=alert(1)>"%s}}}`, timing, receiver.URL(), key, retry)
		if got, err := testkit.Ask(nil, http.MethodPut, nodes[0].url+"/timers/"+key, body); err != nil || got.Status != http.StatusOK {
			t.Errorf("put %s: %d %s, %v", key, got.Status, got.Body, err)
		}
	}
	const ticking = 2000
	inParallel(ticking, 16, func(i int) { put(fmt.Sprintf("tick-%04d", i), `{"interval":2,"repeat-for":1200}`, "") })
	put("order-4711", `{"interval":1}`, `,"retry":{"attempts":9,"first":600}`)
	put("order-4712", `{"interval":1}`, `,"retry":{"attempts":1}`)
	s := &shown{browser, t, nodes[0]}
	s.Open(uitest.Window{Width: 1280, Height: 900})
	s.LogIn(nodes[0].admin, nodes[0].token)
	s.wantCounts(ticking)
	s.findsWhyACallbackFails(receiver, &mended)
	s.drains("main")
	if watch.Known(t, begun, time.Second) { // processes that stand still for longer count as a fault
		wantTicks(t, receiver)
	}
	s.missesARedis(redis[1])
	s.missesANode(nodes[1])
	s.WantQuiet("the dashboard")
}

// wantCounts: the overview counts what was created and what is called back.
func (s *shown) wantCounts(timers int) {
	s.t.Helper()
	testkit.Eventually(s.t, 40*time.Second, "the overview counts", func() bool {
		s.open("")
		var about, perSecond float64
		figures := strings.ReplaceAll(s.all(".figures"), ",", "")
		_, after, _ := strings.Cut(figures, "≈")
		_, _ = fmt.Sscan(after, &about)
		_, after, _ = strings.Cut(figures, "Fired\n")
		_, _ = fmt.Sscan(strings.NewReplacer("/", " ").Replace(after), &perSecond)
		return about > .8*float64(timers) && about < 1.2*float64(timers) && perSecond > 300
	})
	for _, want := range []string{"3 of 3", "Due in 1 min"} {
		if text := s.all("main"); !strings.Contains(text, want) {
			s.t.Errorf("the overview does not say %q:\n%s", want, text)
		}
	}
}

// findsWhyACallbackFails finds a timer by a part of the key and sees why its callback fails, and fires another
// again from the dead letters.
func (s *shown) findsWhyACallbackFails(receiver *webhooktest.Receiver, mended *atomic.Bool) {
	s.t.Helper()
	s.Click("nav >> text=Timers")
	s.Fill("#f-text", "er-4711")
	s.Click("text=Find")
	s.Arrive("text=er-4711")
	for strings.Contains(s.all("main"), "Others may follow") { // among 2,000 other timers
		if strings.Contains(s.all("tbody"), "order-4711") {
			break
		}
		s.Follow("text=go on")
	}
	if text := s.all("main"); !strings.Contains(text, "order-4711") {
		s.t.Fatalf("the search ends without order-4711:\n%s", text)
	}
	s.Click("a >> text=order-4711")
	s.await(10*time.Second, "main", "status 503")
	if text := s.all("main"); !strings.Contains(text, "retrying") || strings.Contains(text, "onerror") {
		s.t.Errorf("the page of the timer says\n%s", text)
	}
	mended.Store(true)
	s.Click("text=Fire now …")
	s.Click("button >> text=Fire now")
	s.Arrive("/ui/done/")
	s.Click("nav >> text=Dead letters")
	s.Click("a >> text=order-4712")
	s.Click("text=Fire again …")
	s.Click("button >> text=Fire again")
	s.Arrive("/ui/done/")
	receiver.WaitFor(s.t, 10*time.Second, func(calls []webhooktest.Call) bool {
		told := map[string]int{}
		for _, c := range calls {
			told[c.Key()]++
		}
		return told["order-4711"] == 2 && told["order-4712"] == 2
	})
}

// drains empties a shard by mouse, and removes it.
func (s *shown) drains(name string) {
	s.t.Helper()
	s.Click("nav >> text=Cluster")
	s.Click("tr[data-key=" + name + "] >> text=Drain …")
	s.Click("button >> text=Drain " + name)
	s.Arrive("/ui/done/")
	s.Click("a.button >> text=Cluster")
	s.await(90*time.Second, "main", name+" is empty: remove it")
	s.Click("tr[data-key=" + name + "] >> text=Remove …")
	s.Click("button >> text=Remove " + name)
	s.Arrive("/ui/done/")
	s.open("cluster")
	testkit.Eventually(s.t, 10*time.Second, name+" is gone", func() bool { return !strings.Contains(s.all("tbody"), name+" ") })
}

// missesARedis: a Redis that stands still is an alarm within 5 s, and pages name the shard.
func (s *shown) missesARedis(redis *testkit.Redis) {
	s.t.Helper()
	s.open("")
	redis.Signal(syscall.SIGSTOP)
	took := s.await(5*time.Second, ".alarm", "shard-down · b")
	s.t.Logf("the alarm came after %v", took.Round(10*time.Millisecond))
	s.open("timers?limit=5")
	if text := s.all("main"); !strings.Contains(text, "No answer from b.") {
		s.t.Errorf("a list without a shard says\n%s", text)
	}
	redis.Signal(syscall.SIGCONT)
	s.open("")
	s.await(20*time.Second, ".alarm", "All is well")
}

// missesANode: a node that is killed vanishes within 12 s.
func (s *shown) missesANode(node *nodeProcess) {
	s.t.Helper()
	s.open("cluster")
	s.await(5*time.Second, "main", node.id)
	node.Kill()
	begun := time.Now()
	testkit.Eventually(s.t, 12*time.Second, "the node vanishes", func() bool { return !strings.Contains(s.all("main"), node.id) })
	s.t.Logf("the node vanished after %v", time.Since(begun).Round(10*time.Millisecond))
}

// wantTicks: before the last pop of each timer that ticks no pop is missing, and none has come twice as a first attempt.
func wantTicks(t *testing.T, receiver *webhooktest.Receiver) {
	t.Helper()
	type pop struct {
		key string
		seq int
	}
	seen, last, twice := map[pop]bool{}, map[string]int{}, 0
	for _, c := range receiver.Calls() {
		if p := (pop{c.Key(), c.Seq}); strings.HasPrefix(p.key, "tick-") {
			if seen[p] && c.Attempt == 1 {
				twice++
			}
			seen[p], last[p.key] = true, max(last[p.key], p.seq)
		}
	}
	pops := 0
	for _, n := range last {
		pops += n
	}
	t.Logf("%d pops of %d timers", len(seen), len(last))
	if len(last) != 2000 || len(seen) < pops || twice > 0 || pops < 10_000 {
		for key, n := range last {
			for seq := range n {
				if !seen[pop{key, seq + 1}] {
					t.Logf("pop %d of %s is missing; %v", seq+1, key, around(receiver, key, seq+1))
				}
			}
		}
		t.Errorf("%d timers tick, %d of %d pops came, %d came twice", len(last), len(seen), pops, twice)
	}
}

// around are the callbacks of the pop, and of the pops before and behind.
func around(receiver *webhooktest.Receiver, key string, seq int) (calls []webhooktest.Call) {
	for _, c := range receiver.Calls() {
		if c.Key() == key && c.Seq >= seq-1 && c.Seq <= seq+1 {
			calls = append(calls, c)
		}
	}
	return calls
}
