package processtest

import (
	"net/http"
	"testing"
	"time"

	"chronos/scheduler/timer"
	"chronos/scheduler/verify/record"
	"chronos/scheduler/verify/testkit"
	"chronos/scheduler/webhook/webhooktest"
)

// lateRig is two nodes on three Redis, with a link between every node and every Redis.
type lateRig struct {
	t        *testing.T
	shards   []*testkit.Redis
	nodes    []*nodeProcess
	links    [][]*link // by node, then by shard
	receiver *webhooktest.Receiver
	client   *api
}

func newLateRig(t *testing.T, env ...string) *lateRig {
	t.Helper()
	r := &lateRig{t: t, receiver: webhooktest.New(t), client: newAPI(t)}
	for range 3 {
		r.shards = append(r.shards, testkit.StartRedis(t))
	}
	for range 2 {
		var links []*link
		var urls []string
		for _, s := range r.shards {
			l := newLink(t, s.Address)
			links, urls = append(links, l), append(urls, l.url())
		}
		r.links = append(r.links, links)
		r.nodes = append(r.nodes, startNode(t, urls[0]+",b="+urls[1]+",c="+urls[2], env...))
	}
	return r
}

// wait is a time in the schedule of the faults.
func (r *lateRig) wait(d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.t.Context().Done():
	}
}

// put writes a timer that calls back after an interval with an opaque.
func (r *lateRig) put(node int, id string, interval time.Duration, opaque string) answer {
	return r.client.do(http.MethodPut, r.nodes[node].url+"/timers/"+id, timerBody(interval, r.receiver.URL(), opaque))
}

func (r *lateRig) remove(node int, id string) answer {
	return r.client.do(http.MethodDelete, r.nodes[node].url+"/timers/"+id, "")
}

// opaquesOf are the bodies of all callbacks of a key, without repetitions.
func (r *lateRig) opaquesOf(key string) []string {
	seen := make(map[string]bool)
	var all []string
	for _, c := range r.receiver.Calls() {
		if c.Key() == key && !seen[c.Body] {
			seen[c.Body] = true
			all = append(all, c.Body)
		}
	}
	return all
}

// orphaned reports whether a copy of a key lives though the newest record of the key
// is a tombstone.
func (r *lateRig) orphaned(key string) bool {
	r.t.Helper()
	var newest, live timer.Version
	for i := range r.shards {
		version, lives := r.copyOn(i, key)
		newest = max(newest, version)
		if lives {
			live = max(live, version)
		}
	}
	return live != 0 && live < newest
}

// holds reports whether a Redis has a live copy of a key.
func (r *lateRig) holds(shard int, key string) bool {
	r.t.Helper()
	_, lives := r.copyOn(shard, key)
	return lives
}

// copyOn is the version of a key's copy on a Redis, 0 without a copy, and whether the copy is
// live.
func (r *lateRig) copyOn(shard int, key string) (version timer.Version, lives bool) {
	r.t.Helper()
	for p := range 16 {
		text, err := r.shards[shard].Admin.HGet(r.t.Context(), "chronos:{http."+twoDigits(p)+"}:timers", key).Result()
		if err != nil {
			continue
		}
		found, err := record.Parse(key, text)
		if err == nil {
			version, err = timer.ParseVersion(found.Version)
		}
		if err != nil {
			r.t.Fatalf("read the copy of %s: %v", key, err)
		}
		return version, !found.Ended
	}
	return 0, false
}
