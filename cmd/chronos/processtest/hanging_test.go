package processtest

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"chronos/scheduler/verify/heldup"
	"chronos/scheduler/verify/history"
	"chronos/scheduler/verify/testkit"
	"chronos/scheduler/webhook/webhooktest"
)

// TestHangingDestinations uses destinations that take connections and never answer, with 500
// recurring timers for every destination. The timers of a good destination don't notice.
func TestHangingDestinations(t *testing.T) {
	tests := []struct{ slots, hanging int }{{4096, 16}, {64, 16}}
	if *faultsFull {
		tests = append(tests, struct{ slots, hanging int }{4096, 1}, struct{ slots, hanging int }{4096, 256}, struct{ slots, hanging int }{64, 1})
	}
	for _, test := range tests {
		t.Run(fmt.Sprintf("%d slots, %d hanging", test.slots, test.hanging), func(t *testing.T) {
			node := startNode(t, testkit.StartRedis(t).URL, fmt.Sprintf("CHRONOS_SLOTS=%d", test.slots))
			client, receiver := newAPI(t), webhooktest.New(t)
			const others = 200
			control := lateness(t, client, node, receiver, others)
			const timers = 500
			before, made := settled(t, node), time.Now()
			for range test.hanging {
				keepCalling(t, node, hangingDestination(t), timers)
			}
			testkit.Eventually(t, time.Minute, "as many claims as there are timers found no slot, or no answer", func() bool {
				return settled(t, node)-before >= test.hanging*timers
			})
			t.Logf("the destinations keep the node busy after %v", time.Since(made).Round(time.Millisecond))
			watch, err := heldup.Start(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			late := lateness(t, client, node, receiver, others)
			heldUp := watch.Stop().Longest()
			p50, p99 := percentile(late, 50), percentile(late, 99)
			t.Logf("%d callbacks: p50 %v, p99 %v, worst %v late; before, %d: p50 %v, p99 %v; the test itself was held up for %v at most",
				len(late), p50, p99, late[len(late)-1], len(control), percentile(control, 50), percentile(control, 99), heldUp)
			slack := heldup.Slack(heldUp)
			if most50, most99 := 5*time.Millisecond+slack/8, 250*time.Millisecond+slack; p50 > most50 || p99 > most99 {
				t.Errorf("p50 %v, p99 %v late; want at most %v and %v", p50, p99, most50, most99)
			}
		})
	}
}

// settled is how many claims of a node have ended.
func settled(t *testing.T, node *nodeProcess) (count int) {
	t.Helper()
	sample := history.Sample{Counters: make(map[string]int64)}
	if err := readMetrics(node.admin+"/metrics", &sample); err != nil {
		t.Fatal(err)
	}
	return int(sample.Counters["settled"])
}

// lateness creates count timers, 40 a second, and returns how late the callbacks are, in order.
func lateness(t *testing.T, client *api, node *nodeProcess, receiver *webhooktest.Receiver, count int) (late []time.Duration) {
	t.Helper()
	before := len(receiver.Calls())
	ticker := time.NewTicker(25 * time.Millisecond)
	defer ticker.Stop()
	for range count {
		client.create(t, node, 2*time.Second, receiver.URL(), "other")
		<-ticker.C
	}
	testkit.Eventually(t, 15*time.Second, "all timers were called", func() bool { return len(receiver.Calls()) >= before+count })
	for _, call := range receiver.Calls()[before:] {
		late = append(late, call.Arrived.Sub(call.Due))
	}
	slices.Sort(late)
	return late
}

// hangingDestination never answers: the kernel takes as many connections as fit into the
// listener's queue, and nobody reads from the connections.
func hangingDestination(t *testing.T) (url string) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return "http://" + listener.Addr().String() + "/"
}

// keepCalling creates timers that are called every second for an hour.
func keepCalling(t *testing.T, node *nodeProcess, url string, count int) {
	t.Helper()
	timer := fmt.Sprintf(`{"timing":{"interval":1,"repeat-for":3600},"callback":{"http":{"uri":%q,"opaque":"hangs"}}}`, url)
	body := `{"timers":[` + strings.TrimSuffix(strings.Repeat(timer+",", count), ",") + `]}`
	res, err := testkit.Ask(nil, http.MethodPost, node.url+"/timers/batch", body)
	if err != nil {
		t.Fatal(err)
	}
	if res.Status != http.StatusOK {
		t.Fatalf("create a batch: status %d", res.Status)
	}
}
