package processtest

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"chronos/scheduler/verify/history"
	"chronos/scheduler/verify/testkit"
)

// changeShards adds a shard under load, drains another shard, and removes the drained shard once
// the shard is empty; in a full run three times.
func (r *rig) changeShards() {
	for round := range r.plan.either(1, 3) {
		added := &shardProcess{name: string(rune('d' + round)), Redis: testkit.NewRedis(r.t)}
		r.cluster.startShard(added)
		r.cluster.shards = append(r.cluster.shards, added)
		r.change("add", http.MethodPost, "/topology/shards", `{"name": "`+added.name+`", "url": "`+added.URL+`"}`)
		drained := r.cluster.shards[round+1].name
		r.change("drain", http.MethodPost, "/topology/shards/"+drained+"/drain", "")
		// A delete by an ID that names the shard leaves a tombstone on the shard for 10 s.
		testkit.Eventually(r.t, r.plan.mix().longest+20*time.Second, "the drained shard is empty", func() bool { return r.drainedIsEmpty(drained) })
		testkit.Eventually(r.t, 20*time.Second, "a shard that is drained is removed", func() bool {
			status, _ := r.askTopology(http.MethodDelete, "/topology/shards/"+drained, "")
			return status == http.StatusOK
		})
	}
}

func (r *rig) drainedIsEmpty(name string) bool {
	r.t.Helper()
	for _, s := range r.topology(http.MethodGet, "/topology", "").Shards {
		if s.Name == name && s.State == "draining" {
			return s.Copies != nil && *s.Copies == 0
		}
	}
	r.t.Fatalf("no shard %s is being drained", name)
	return false
}

// shownTopology is the topology, as shown by the admin listener.
type shownTopology struct {
	Moving bool
	Shards []struct {
		Name, State string
		Copies      *int
	}
}

// change makes a change of the topology, and waits until the sweep has passed.
func (r *rig) change(kind, method, path, body string) {
	r.t.Helper()
	end := r.cluster.journal.begin(history.Fault{Kind: kind, Class: history.Harmless})
	defer end()
	begun := time.Now()
	r.topology(method, path, body)
	for _, m := range r.cluster.nodes {
		m.settle(r.t)
	}
	r.t.Logf("%s %s: over after %v", method, path, time.Since(begun).Round(100*time.Millisecond))
}

func (r *rig) topology(method, path, body string) (view shownTopology) {
	r.t.Helper()
	r.moved = r.moved || method != http.MethodGet
	return r.cluster.nodes[0].topology(r.t, method, path, body)
}

func (r *rig) askTopology(method, path, body string) (status int, raw []byte) {
	r.t.Helper()
	r.moved = r.moved || method != http.MethodGet
	return r.cluster.nodes[0].askTopology(r.t, method, path, body)
}

// topology makes a request to the node's admin listener; the request must succeed.
func (n *nodeProcess) topology(t *testing.T, method, path, body string) (view shownTopology) {
	t.Helper()
	status, raw := n.askTopology(t, method, path, body)
	if err := json.Unmarshal(raw, &view); status != http.StatusOK || err != nil {
		t.Fatalf("%s %s: %d %s (%v)", method, path, status, raw, err)
	}
	return view
}

func (n *nodeProcess) askTopology(t *testing.T, method, path, body string) (status int, raw []byte) {
	t.Helper()
	got := n.ask(t, method, path, body)
	return got.Status, []byte(got.Body)
}

// settle waits until the sweep after a change has passed, and returns the time of the wait.
func (n *nodeProcess) settle(t *testing.T) time.Duration {
	t.Helper()
	begun := time.Now()
	testkit.Eventually(t, time.Minute, "timers are where they belong", func() bool {
		var view shownTopology
		_, raw := n.askTopology(t, http.MethodGet, "/topology", "")
		return json.Unmarshal(raw, &view) == nil && !view.Moving
	})
	return time.Since(begun)
}
