package processtest

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"chronos/api/client"
	"chronos/redisstore"
	"chronos/redisstore/endpoint"
	"chronos/scheduler/verify/history"
	"chronos/scheduler/verify/testkit"
)

// churn adds and drains shards without a pause: every ten seconds a new change is requested,
// and refused if the last change is not over. Then a shard is killed while another shard is
// drained. At the end every waiting timer has its copies on its owners, and no leftover.
func (r *rig) churn() {
	added := &shardProcess{name: "d", Redis: testkit.NewRedis(r.t)}
	r.cluster.startShard(added)
	r.cluster.shards = append(r.cluster.shards, added)
	keys := r.createWaiting(r.plan.either(500, 5000))
	end := func() {} // ends the last change
	steps := [][3]string{
		{http.MethodPost, "/topology/shards", `{"name": "d", "url": "` + added.URL + `"}`},
		{http.MethodPost, "/topology/shards/b/drain"},
		{http.MethodPost, "/topology/shards", `{"name": "b"}`},
		{http.MethodPost, "/topology/shards/d/drain"},
	}
	made, refused := 0, 0
	for range r.plan.either(3, 18) {
		step := steps[made%len(steps)]
		switch status, raw := r.askTopology(step[0], step[1], step[2]); status {
		case http.StatusOK:
			end()
			end = r.cluster.journal.begin(history.Fault{Kind: "churn", Class: history.Harmless})
			made++
		case http.StatusConflict:
			refused++
		default:
			r.t.Errorf("%s %s: %d %s", step[0], step[1], status, raw)
		}
		r.wait(10 * time.Second)
	}
	r.settleAll()
	end()
	r.t.Logf("%d changes, %d refused since the one before was not over", made, refused)
	r.wantInPlace(keys)
	for range r.plan.either(1, 3) {
		r.killDuringDrain()
		r.wantInPlace(keys)
	}
	r.forgetWaiting(keys)
}

// killDuringDrain drains a shard, and kills another shard while timers move.
func (r *rig) killDuringDrain() {
	node := r.cluster.nodes[0]
	active := func() (names []string) {
		for _, s := range node.topology(r.t, http.MethodGet, "/topology", "").Shards {
			if s.State == "active" {
				names = append(names, s.Name)
			}
		}
		return names
	}
	names := active()
	if len(names) < 4 { // add a shard, so that two copies have room
		r.topology(http.MethodPost, "/topology/shards", `{"name": "`+r.missing(names)+`"}`)
		r.settleAll()
		names = active()
	}
	drained, killed := names[1], names[2]
	r.topology(http.MethodPost, "/topology/shards/"+drained+"/drain", "")
	testkit.Eventually(r.t, 30*time.Second, "the drain counts", func() bool { return len(active()) < len(names) })
	i := slices.IndexFunc(r.cluster.shards, func(s *shardProcess) bool { return s.name == killed })
	back := r.cluster.killShard(r.cluster.shards[i], "kill", history.ShardAway)
	r.wait(5 * time.Second)
	back()
	took := r.settleAll()
	r.t.Logf("%s was killed while %s was drained: over %v after it was back", killed, drained, took.Round(100*time.Millisecond))
	testkit.Eventually(r.t, r.plan.mix().longest+20*time.Second, "the drained shard is empty", func() bool { return r.drainedIsEmpty(drained) })
}

// missing is a shard that takes no timers.
func (r *rig) missing(active []string) string {
	for _, s := range r.cluster.shards {
		if !slices.Contains(active, s.name) {
			return s.name
		}
	}
	r.t.Fatal("all shards take timers")
	return ""
}

// settleAll waits until every node has seen the sweep pass, and returns the time of the wait.
func (r *rig) settleAll() time.Duration {
	r.t.Helper()
	begun := time.Now()
	for _, m := range r.cluster.nodes {
		m.settle(r.t)
	}
	return time.Since(begun)
}

// createWaiting creates timers that are due long after the run. The journal doesn't know the
// timers.
func (r *rig) createWaiting(n int) (keys []string) {
	r.t.Helper()
	c, err := client.New(r.cluster.nodes[0].url)
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.Close()
	for i := range n {
		key := fmt.Sprintf("waiting-%05d", i)
		if _, err := c.Replace(r.t.Context(), key, client.Timer{Interval: time.Hour, URI: r.receiver.URL(), ReplicationFactor: 2}); err != nil {
			r.t.Fatal(err)
		}
		keys = append(keys, key)
	}
	return keys
}

// wantInPlace checks that within a minute all copies of the timers are on their owners, with
// the right ranks, and that no leftovers remain.
func (r *rig) wantInPlace(keys []string) {
	r.t.Helper()
	store := r.openStore()
	defer func() {
		if err := store.Close(); err != nil {
			r.t.Error(err)
		}
	}()
	begun := time.Now()
	wrong := ""
	for time.Since(begun) < time.Minute {
		if wrong = r.misplaced(store, keys); wrong == "" {
			r.t.Logf("%d timers are in place after %v", len(keys), time.Since(begun).Round(100*time.Millisecond))
			return
		}
		r.wait(time.Second)
	}
	r.t.Errorf("after a minute there is still one out of place: %s", wrong)
}

// openStore opens a store with the same shards as the nodes, and reads the topology.
func (r *rig) openStore() *redisstore.Store {
	r.t.Helper()
	var configs []endpoint.Config
	for _, s := range r.cluster.shards {
		configs = append(configs, endpoint.Config{Name: s.name, URL: s.URL})
	}
	store, err := redisstore.Open(r.t.Context(), redisstore.Options{Shards: configs, Node: "probe", Lane: "http", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		r.t.Fatal(err)
	}
	testkit.Eventually(r.t, 20*time.Second, "the topology is read", func() bool {
		if err := store.Join(r.t.Context()); err != nil {
			r.t.Fatal(err)
		}
		return store.Topology().Epoch > 0
	})
	return store
}

// misplaced names a timer with a missing, misplaced or superfluous copy, or is "".
func (r *rig) misplaced(store *redisstore.Store, keys []string) string {
	r.t.Helper()
	servers := map[string]*testkit.Redis{}
	for _, s := range r.cluster.shards {
		servers[s.name] = s.Redis
	}
	places := placesOf(r.t, servers)
	for _, key := range keys {
		homes := store.Rank(key)[:2]
		if len(places[key]) != 2 {
			return fmt.Sprintf("%s has %d copies", key, len(places[key]))
		}
		for rank, name := range homes {
			if record, there := places[key][name]; !there || rankOf(r.t, record) != rank {
				return fmt.Sprintf("%s belongs on %v, and %s has of it: %q", key, homes, name, record)
			}
		}
	}
	return ""
}

// forgetWaiting removes the timers that the journal doesn't know.
func (r *rig) forgetWaiting(keys []string) {
	r.t.Helper()
	for _, s := range r.cluster.shards {
		for p := range 16 {
			prefix := "chronos:{http." + twoDigits(p) + "}:"
			members := make([]any, len(keys))
			for i, key := range keys {
				members[i] = key
			}
			if err := s.Admin.ZRem(r.t.Context(), prefix+"due", members...).Err(); err != nil {
				r.t.Fatal(err)
			}
			if err := s.Admin.HDel(r.t.Context(), prefix+"timers", keys...).Err(); err != nil {
				r.t.Fatal(err)
			}
		}
	}
}

// churning is the load of a churn. Since a churn lasts long, the load has half the usual rate
// of creates, and more updates and deletes.
func churning(m *mix) {
	m.rate /= 2
	m.deletes, m.replaces = 0.15, 0.15
}

// placedLate is for a run in which timers move all the time. A timer may be half a skew late if
// the node that replaced the timer knew only the former topology.
func placedLate(l *history.Limits, _ *history.History) {
	l.MinInWindows = 0.05
	l.Late += time.Second
}
