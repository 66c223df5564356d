package processtest

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"chronos/scheduler/verify/testkit"
	"chronos/scheduler/webhook/webhooktest"
)

// peakMemory is the greatest resident memory of a process so far, in bytes.
func peakMemory(t *testing.T, pid int) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if found == nil {
		t.Fatalf("no VmHWM in %s", status)
	}
	n, _ := strconv.ParseInt(string(found[1]), 10, 64) // digits
	return n << 10
}

// TestLooksAmongAMillionTimers looks at a million timers 10 times a second, beside 1,000 callbacks a second: nearly every
// look is answered, and the node needs little memory for them. How late callbacks are meanwhile is measured by
// loadtest/bench.
func TestLooksAmongAMillionTimers(t *testing.T) {
	t.Parallel()
	node := startNode(t, testkit.StartRedis(t, "--appendonly", "no").URL)
	receiver := webhooktest.New(t)
	const timers, batch, ticking = 1_000_000, 1000, 2000
	one := func(timing, uri string) string {
		return `{"timing":` + timing + `,"callback":{"http":{"uri":"` + uri + `","opaque":"` + strings.Repeat("x", 100) + `"}},"reliability":{"replication-factor":1}}`
	}
	send := func(body string) { // a batch without an answer in time is sent again, and may make more timers
		testkit.Eventually(t, 30*time.Second, "a batch is created", func() bool {
			got, err := testkit.Ask(nil, http.MethodPost, node.url+"/timers/batch", body)
			if err != nil || got.Status != http.StatusOK && got.Status != http.StatusServiceUnavailable {
				t.Errorf("create: %d %.200s, %v", got.Status, got.Body, err)
				return true
			}
			return got.Status == http.StatusOK
		})
	}
	days := func(i int) string { return fmt.Sprintf(`{"interval":%d}`, 200_000+i*100) }
	inParallel(timers/batch, 4, func(i int) {
		send(`{"timers":[` + strings.TrimSuffix(strings.Repeat(one(days(i), "http://pending.example/pop")+",", batch), ",") + `]}`)
	})
	inParallel(ticking/batch, 2, func(int) {
		send(`{"timers":[` + strings.TrimSuffix(strings.Repeat(one(`{"interval":2,"repeat-for":3600}`, receiver.URL())+",", batch), ",") + `]}`)
	})
	const needle = 700
	if got, err := testkit.Ask(nil, http.MethodPut, node.url+"/timers/needle", one(days(needle), "http://needle.example/pop")); err != nil || got.Status != http.StatusOK {
		t.Fatalf("create: %d %s, %v", got.Status, got.Body, err)
	}
	if t.Failed() {
		return
	}
	after := time.Now().Add(time.Duration(200_000+needle*100-20) * time.Second).UTC().Format(time.RFC3339)
	// One search a second: a search takes a second, and a node makes two lists at once.
	looks := []string{
		"/timers?limit=100&due-after=" + after, "/load?step=1h&buckets=168", "/timers?text=le.exam&due-after=" + after, "/timers?limit=100", "/load",
		"/timers?key=needle", "/timers?limit=50&due-after=" + after, "/status", "/timers?limit=100&due-after=" + after, "/load?step=1s",
	}
	before := peakMemory(t, node.PID()) // of creates and callbacks
	var mu sync.Mutex
	answers, found := map[string]int{}, 0
	var asking sync.WaitGroup
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for i := range 100 {
		asking.Go(func() {
			got := node.ask(t, http.MethodGet, looks[i%len(looks)], "")
			mu.Lock()
			defer mu.Unlock()
			answers[strconv.Itoa(got.Status)]++
			if strings.Contains(got.Body, "http://needle.example/pop") {
				found++
			}
		})
		<-ticker.C
	}
	asking.Wait()
	peak := peakMemory(t, node.PID())
	t.Logf("answers %v, found %d times, %d callbacks, memory from %d to %d MB", answers, found, len(receiver.Calls()), before>>20, peak>>20)
	if answers["200"] < 95 || found < 10 || len(receiver.Calls()) < 3000 {
		t.Errorf("answers %v, the needle was found %d times, %d callbacks came", answers, found, len(receiver.Calls()))
	}
	if more := peak - before; more > 50<<20 {
		t.Errorf("the looks took %d MB", more>>20)
	}
	if got := node.ask(t, http.MethodGet, "/status", ""); !strings.Contains(got.Body, `"about":1`) && !strings.Contains(got.Body, `"about":9`) {
		t.Errorf("the status says %.300s of a million timers", got.Body)
	}
}
