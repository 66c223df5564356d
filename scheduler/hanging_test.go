package scheduler_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chronos/scheduler/dispatch"
	"chronos/scheduler/settings"
	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
)

// callbackLimit is how long a callback may last.
const callbackLimit = 2 * time.Second

// TestHangingDestinationsDelayNobodyElse: destinations that never answer, with far more
// timers than slots, leave slots and claims for the timers of everybody else.
func TestHangingDestinationsDelayNobodyElse(t *testing.T) {
	for _, test := range []struct{ slots, hanging, timers int }{{4096, 1, 500}, {4096, 1, 4500}, {4096, 16, 500}, {4096, 256, 50}, {64, 1, 500}, {64, 16, 500}} {
		t.Run(fmt.Sprintf("%d slots, %d hanging with %d timers each", test.slots, test.hanging, test.timers), func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
				r.respond = func(a attempt) (time.Duration, dispatch.Delivered) {
					if strings.HasPrefix(a.Callback.URI, "http://hangs") {
						return time.Hour, dispatch.Delivered{}
					}
					return time.Millisecond, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
				}
				n := startNode(t, m.Open("a"), "a", r, func(c *settings.Config) { c.Slots = test.slots })
				keepHanging(t, n, test.hanging, test.timers)
				const others = 100
				for range others {
					asked := oneShot(time.Second)
					asked.Callback.URI = "http://answers/"
					create(t, n, asked)
					pass(50 * time.Millisecond)
				}
				pass(3 * time.Second)
				wantPrompt(t, r.seen(), others)
				if test.hanging == 1 {
					wantAtOnce(t, r.seen(), min(test.timers, test.slots/2))
				}
			})
		})
	}
}

// keepHanging creates so many timers for every destination, spread over their interval.
func keepHanging(t *testing.T, n *node, destinations, timers int) {
	t.Helper()
	for i := range destinations * timers {
		asked := recurring(time.Second, 1000)
		asked.Callback.URI = fmt.Sprintf("http://hangs%d/", i%destinations)
		create(t, n, asked)
		if (i+1)%(destinations*timers/50) == 0 {
			pass(20 * time.Millisecond)
		}
	}
}

// wantPrompt checks the callbacks of the destination that answers.
func wantPrompt(t *testing.T, seen []attempt, want int) {
	t.Helper()
	var late []time.Duration
	for _, a := range seen {
		if a.Callback.URI == "http://answers/" {
			late = append(late, a.late)
		}
	}
	if len(late) != want {
		t.Fatalf("%d callbacks of other destinations, want %d", len(late), want)
	}
	slices.Sort(late)
	p50, p99, worst := late[len(late)/2], late[len(late)*99/100], late[len(late)-1]
	t.Logf("%d callbacks in all; of others p50 %v, p99 %v, worst %v", len(seen), p50, p99, worst)
	if p50 > 5*time.Millisecond || p99 > 250*time.Millisecond {
		t.Errorf("callbacks of other destinations: p50 %v, p99 %v late; want at most 5ms and 250ms", p50, p99)
	}
}

// wantAtOnce checks how many hanging callbacks were under way at once.
func wantAtOnce(t *testing.T, seen []attempt, want int) {
	t.Helper()
	var begun []time.Time
	most := 0
	for _, a := range seen {
		if a.Callback.URI == "http://answers/" {
			continue
		}
		for len(begun) > 0 && a.at.Sub(begun[0]) >= callbackLimit {
			begun = begun[1:]
		}
		begun = append(begun, a.at)
		most = max(most, len(begun))
	}
	if most != want {
		t.Errorf("%d callbacks of a destination that hangs were under way at once, want %d", most, want)
	}
}

// TestABurstIsClaimedOnce: many timers of one quick destination are due at once. Hardly any timer
// goes back to its shard for lack of a slot.
func TestABurstIsClaimedOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Model, r *recorder) {
		r.respond = slowly(100 * time.Millisecond)
		registry := prometheus.NewRegistry()
		n := startNode(t, m.Open("a"), "a", r, func(c *settings.Config) { c.Registerer = registry })
		const burst = 10000
		due := time.Now().Add(20 * time.Second)
		for range burst {
			create(t, n, timer.Timer{At: due, ReplicationFactor: 1, Callback: timer.Callback{URI: "http://receiver/"}})
		}
		pass(30 * time.Second)
		if seen := r.seen(); len(seen) != burst {
			t.Fatalf("%d callbacks, want %d", len(seen), burst)
		}
		if released := settled(t, registry, "release"); released > burst/20 {
			t.Errorf("%v claims of %d went back to the shard", released, burst)
		}
	})
}

// settled is how many claims had the outcome.
func settled(t *testing.T, registry *prometheus.Registry, outcome string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, metric := range f.GetMetric() {
			if f.GetName() == "chronos_settled_total" && metric.GetLabel()[0].GetValue() == outcome {
				return metric.GetCounter().GetValue()
			}
		}
	}
	return 0
}
