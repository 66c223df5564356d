package processtest

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"chronos/api/client"
	"chronos/scheduler/verify/record"
	"chronos/scheduler/verify/testkit"
)

// movedTimers is how many timers TestAFourthShardMovesItsShare counts.
const movedTimers = 100_000

// A fourth Redis takes its share by rendezvous hashing, a quarter of all copies, by count. Not
// a byte of any other copy changes. After a drain all copies are as before, and the
// fourth Redis is empty.
func TestAFourthShardMovesItsShare(t *testing.T) {
	t.Parallel()
	shards := map[string]*testkit.Redis{}
	var urls []string
	for _, name := range []string{"a", "b", "c", "d"} {
		shards[name] = testkit.StartRedis(t)
		urls = append(urls, name+"="+shards[name].URL)
	}
	node := startNode(t, "", "CHRONOS_REDIS="+strings.Join(urls[:3], ","), "CHRONOS_SWEEP_RATE=1000000")
	before := createMany(t, node.url, shards)

	node.topology(t, http.MethodPost, "/topology/shards", `{"name": "d", "url": "`+shards["d"].URL+`"}`)
	t.Logf("added: over after %v", node.settle(t))
	after := placesOf(t, shards)
	moved, primaries := 0, 0
	for key, was := range before {
		is := after[key]
		if len(was) != 2 || len(is) != 2 {
			t.Fatalf("%s had %d copies, and has %d", key, len(was), len(is))
		}
		for name, text := range is {
			switch {
			case name == "d":
				moved++
				if rankOf(t, text) == 0 {
					primaries++
				}
			case was[name] != text:
				t.Fatalf("%s on %s was %q, and is %q", key, name, was[name], text)
			}
		}
	}
	// A copy belongs on every shard of the four with equal probability.
	wantAbout(t, "copies moved", moved, 2*len(before), .25)
	wantAbout(t, "primaries among them", primaries, len(before), .25)

	node.topology(t, http.MethodPost, "/topology/shards/d/drain", "")
	t.Logf("drained: over after %v", node.settle(t))
	back := placesOf(t, shards)
	for key, was := range before {
		for name, text := range was {
			if is, there := back[key][name]; !there || len(back[key]) != 2 || rankOf(t, text) != rankOf(t, is) {
				t.Fatalf("%s has %d copies, on %s %q, where %q was", key, len(back[key]), name, is, text)
			}
		}
	}
	testkit.Eventually(t, 20*time.Second, "a shard that is drained is removed", func() bool {
		status, _ := node.askTopology(t, http.MethodDelete, "/topology/shards/d", "")
		return status == http.StatusOK
	})
	if left := placesOf(t, map[string]*testkit.Redis{"d": shards["d"]}); len(left) > 0 {
		t.Errorf("%d copies are left on the shard that was drained", len(left))
	}
}

// wantAbout checks a count of independent chances, within five standard deviations.
func wantAbout(t *testing.T, what string, got, of int, share float64) {
	t.Helper()
	want, wide := share*float64(of), 5*math.Sqrt(float64(of)*share*(1-share))
	t.Logf("%s: %d of %d", what, got, of)
	if math.Abs(float64(got)-want) > wide {
		t.Errorf("%s: %d, want %.0f ± %.0f", what, got, want, wide)
	}
}

// createMany creates timers with two copies that are due in an hour, until movedTimers timers
// have both copies, and returns the records. On a busy machine a shard may be silent for a
// moment; createMany leaves out timers without two copies.
func createMany(t *testing.T, url string, shards map[string]*testkit.Redis) map[string]map[string]string {
	t.Helper()
	c, err := client.New(url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const batch = 1000
	timers := make([]client.Timer, batch)
	for i := range timers {
		timers[i] = client.Timer{Interval: time.Hour, URI: "http://127.0.0.1:9/" + strconv.Itoa(i), ReplicationFactor: 2}
	}
	for range 10 {
		placed := placesOf(t, shards)
		maps.DeleteFunc(placed, func(_ string, copies map[string]string) bool { return len(copies) != 2 })
		if len(placed) >= movedTimers {
			return placed
		}
		for range (movedTimers - len(placed) + batch - 1) / batch {
			if _, err := c.CreateBatch(t.Context(), timers); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Fatalf("%d timers could not be put where they belong", movedTimers)
	return nil
}

// placesOf are the records of all timers, by key and shard.
func placesOf(t *testing.T, shards map[string]*testkit.Redis) map[string]map[string]string {
	t.Helper()
	all := map[string]map[string]string{}
	for name, s := range shards {
		for p := range 16 {
			records, err := s.Admin.HGetAll(t.Context(), fmt.Sprintf("chronos:{http.%02d}:timers", p)).Result()
			if err != nil {
				t.Fatal(err)
			}
			for key, text := range records {
				if key == "#" {
					continue
				}
				if all[key] == nil {
					all[key] = map[string]string{}
				}
				all[key][name] = text
			}
		}
	}
	return all
}

func rankOf(t *testing.T, text string) int {
	t.Helper()
	c, err := record.Parse("", text)
	if err != nil {
		t.Fatal(err)
	}
	return c.Rank
}
