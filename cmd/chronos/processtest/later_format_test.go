package processtest

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"chronos/scheduler/timer"
	"chronos/scheduler/verify/heldup"
	"chronos/scheduler/verify/testkit"
	"chronos/scheduler/webhook/webhooktest"
)

// TestTimersOfALaterFormatAreLeftAlone puts copies into a format that the nodes can't read, as
// after an upgrade that was taken back. No such copy is called, overwritten or lost, and the
// answers to requests name the reason.
func TestTimersOfALaterFormatAreLeftAlone(t *testing.T) {
	t.Parallel()
	r := newLateRig(t)
	const due = 3 * time.Second
	put := func(key string) time.Time {
		got := r.put(0, key, due, key)
		if got.err != nil || got.status != http.StatusOK || got.header.Get("X-Chronos-Unreached") != "" {
			t.Fatalf("PUT %s: status %d, %v", key, got.status, got.err)
		}
		return got.due
	}
	// All copies, one copy of a later write, one copy of the same write, one copy of an earlier write.
	all, newer, same, older, plain := put("all"), put("newer"), put("same"), put("older"), put("plain")
	put("written")
	for _, key := range []string{"all", "written"} {
		for _, shard := range r.holders(key) {
			r.rewrite(shard, key, func(text string) string { return "3" + text[1:] })
		}
	}
	for key, by := range map[string]int64{"newer": 1 << 16, "same": 0, "older": -1 << 16} {
		r.rewrite(r.holders(key)[0], key, func(text string) string {
			version, err := timer.ParseVersion(text[3:19])
			if err != nil {
				t.Fatal(err)
			}
			return "3" + text[1:3] + timer.Version(int64(version)+by).String() + text[19:]
		})
	}
	watch := heldup.Begin(t)
	for _, request := range [][3]string{
		{http.MethodGet, "all", ""}, {http.MethodPut, "written", timerBody(due, r.receiver.URL(), "again")}, {http.MethodDelete, "written", ""},
		{http.MethodGet, "written", ""}, // a Redis that is no owner has the tombstone of the DELETE
	} {
		got, err := testkit.Ask(http.DefaultClient, request[0], r.nodes[1].url+"/timers/"+request[1], request[2])
		if err != nil || got.Status != http.StatusServiceUnavailable || !strings.Contains(got.Body, `"upgrade-under-way"`) {
			t.Errorf("%s: %d %s, %v; want 503 upgrade-under-way", request[0], got.Status, got.Body, err)
		}
	}
	r.wait(time.Until(plain.Add(8 * time.Second)))
	for key, most := range map[string]time.Duration{"plain": time.Second, "older": 2 * time.Second, "same": 7 * time.Second} {
		calls := slices.DeleteFunc(slices.Clone(r.receiver.Calls()), func(c webhooktest.Call) bool { return c.Key() != key })
		want := map[string]time.Time{"plain": plain, "older": older, "same": same}[key]
		if len(calls) != 1 {
			t.Errorf("%s, which was due at %v, was called %d times, want once: %v", key, want, len(calls), calls)
			continue
		}
		watch.AtMost(t, want, "the lateness of "+key, calls[0].Arrived.Sub(want), most)
	}
	for key, at := range map[string]time.Time{"all": all, "newer": newer} {
		if got := r.opaquesOf(key); len(got) > 0 {
			t.Errorf("%s, which was due at %v, was called, with %q", key, at, got)
		}
	}
	if !slices.ContainsFunc(r.nodes, func(n *nodeProcess) bool {
		got, err := testkit.Ask(nil, http.MethodGet, n.admin+"/metrics", "")
		return err == nil && !strings.Contains(got.Body, "\nchronos_later_format_total 0\n")
	}) {
		t.Error("no node counted a timer that it can't read")
	}
	for _, shard := range []int{0, 1, 2} { // the upgrade is done
		for _, key := range []string{"all", "newer"} {
			r.rewrite(shard, key, func(text string) string { return "1" + text[1:] })
		}
	}
	testkit.Eventually(t, 15*time.Second, "timers are called that can be read again", func() bool {
		return len(r.opaquesOf("all")) == 1 && len(r.opaquesOf("newer")) == 1
	})
}

// TestALaterFormatIsNoFaultOfItsShard makes requests for copies in a format that the nodes can't
// read. A sweep that meets the copies ends, and no shard counts as failing.
func TestALaterFormatIsNoFaultOfItsShard(t *testing.T) {
	t.Parallel()
	r := newLateRig(t)
	for _, key := range []string{"all", "one", "older"} {
		if got := r.put(0, key, time.Minute, key); got.err != nil || got.status != http.StatusOK {
			t.Fatalf("PUT %s: status %d, %v", key, got.status, got.err)
		}
	}
	for _, shard := range r.holders("all") {
		r.rewrite(shard, "all", func(text string) string { return "3" + text[1:] })
	}
	r.rewrite(r.holders("one")[0], "one", func(text string) string { return "3" + text[1:] })
	r.rewrite(r.holders("older")[0], "older", func(text string) string { return "3" + text[1:3] + "0000000000000001" + text[19:] })
	left := func() (most int) {
		for _, n := range r.nodes {
			got, err := testkit.Ask(nil, http.MethodGet, n.admin+"/metrics", "")
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range regexp.MustCompile(`(?m)^chronos_sweep_partitions_left\{.*\} (\d+)$`).FindAllStringSubmatch(got.Body, -1) {
				count, _ := strconv.Atoi(line[1])
				most = max(most, count)
			}
		}
		return most
	}
	testkit.Eventually(t, 5*time.Second, "the first sweep begins", func() bool { return left() > 0 })
	testkit.Eventually(t, 30*time.Second, "the first sweep ends", func() bool { return left() == 0 })
	for end := time.Now().Add(1500 * time.Millisecond); time.Now().Before(end); r.wait(50 * time.Millisecond) {
		for node := range r.nodes {
			if got := r.remove(node, "all"); got.status != http.StatusServiceUnavailable {
				t.Fatalf("DELETE: status %d, %v; want 503", got.status, got.err)
			}
		}
	}
	r.wait(5 * time.Second) // an outage is noticed 3 s after its end
	const missed = "has missed something"
	for _, n := range r.nodes {
		if text := n.Log.String(); strings.Contains(text, missed) {
			t.Errorf("a node takes the later format for a fault of the shard: %s", text)
		}
	}
}

// holders are the Redis that have a copy of a key.
func (r *lateRig) holders(key string) (all []int) {
	r.t.Helper()
	for i := range r.shards {
		if r.holds(i, key) {
			all = append(all, i)
		}
	}
	if len(all) != 2 {
		r.t.Fatalf("%d Redis have %s, want 2", len(all), key)
	}
	return all
}

// rewrite changes the record of a key on a Redis, if any.
func (r *lateRig) rewrite(shard int, key string, change func(text string) string) {
	r.t.Helper()
	for p := range 16 {
		hash := "chronos:{http." + twoDigits(p) + "}:timers"
		text, err := r.shards[shard].Admin.HGet(r.t.Context(), hash, key).Result()
		if err != nil {
			continue
		}
		if err := r.shards[shard].Admin.HSet(r.t.Context(), hash, key, change(text)).Err(); err != nil {
			r.t.Fatal(err)
		}
	}
}
