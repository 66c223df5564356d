package processtest

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"chronos/scheduler/verify/history"
)

// rollShardsBack restarts every shard in turn without the last 1.5 s of its data. The shard
// stays away so long that the second version of a replaced timer may be over by then.
func (r *rig) rollShardsBack() {
	for round := range r.plan.either(1, 3) {
		for i, s := range r.cluster.shards {
			if round+i > 0 {
				r.recover()
			}
			back := r.cluster.rollBack(s, 1500*time.Millisecond)
			r.wait(2 * time.Second)
			back()
		}
	}
	r.wait(3 * time.Second)
}

// rolledBackMix has many timers with a second version that ends before the first would come due.
func (p plan) rolledBackMix(m *mix) {
	p.lightMix(m)
	m.deletes, m.replaces, m.longest = 0.1, 0.7, max(m.longest, 6*time.Second)
}

// noMoreThanLost allows as many duplicates as callbacks came in the lost times. A version that
// is older than 5 s leaves no record on any shard after its end. A shard that has lost the
// end therefore calls again, with the same webhook-id.
func noMoreThanLost(l *history.Limits, h *history.History) {
	if _, most := callsAgain(h); most > l.FewDuplicates {
		l.FewDuplicates = most
	}
}

func (r *rig) judgeRolledBack(h *history.History, _ *history.Report) {
	again, lost := callsAgain(h)
	r.t.Logf("the outcomes of %d callbacks may have been lost; %d of %d callbacks came again", lost, again, len(h.Callbacks))
}

// callsAgain counts the callbacks that repeat an earlier callback, and the callbacks within the
// times that shards lost.
func callsAgain(h *history.History) (again, lost int) {
	seen := make(map[string]bool)
	for i := range h.Callbacks {
		c := &h.Callbacks[i]
		if seen[c.WebhookID] {
			again++
		}
		seen[c.WebhookID] = true
		if slices.ContainsFunc(h.Faults, func(f history.Fault) bool {
			return f.Class == history.ShardLost && c.ArriveNs >= f.StartNs-f.BackMs*int64(time.Millisecond) && c.ArriveNs < f.StartNs
		}) {
			lost++
		}
	}
	return again, lost
}

// rollBack waits for the time by, kills a shard, and removes all writes of the wait from the
// append-only file; back starts the shard again and ends the fault.
func (c *cluster) rollBack(s *shardProcess, by time.Duration) (back func()) {
	c.t.Helper()
	if err := s.Admin.ConfigSet(c.t.Context(), "auto-aof-rewrite-percentage", "0").Err(); err != nil {
		c.t.Fatal(err)
	}
	before, kept := time.Now(), s.logSize(c.t)
	select {
	case <-time.After(by):
	case <-c.t.Context().Done():
	}
	end := c.journal.begin(history.Fault{
		Kind: "roll-back", Class: history.ShardLost, Shard: s.name, BackMs: time.Since(before).Milliseconds() + 1, Restarted: true,
	})
	s.Kill()
	lost := s.logSize(c.t) - kept
	if err := os.Truncate(s.appendOnlyFile(c.t), kept); err != nil || lost <= 0 {
		c.t.Fatalf("take %d bytes from the append-only file: %v", lost, err)
	}
	c.t.Logf("shard %s lost the last %d of %d bytes", s.name, lost, kept+lost)
	return func() {
		c.startShard(s)
		end()
	}
}

// appendOnlyFile is the file that the shard now appends to.
func (s *shardProcess) appendOnlyFile(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(s.Dir, "appendonlydir", "*.incr.aof"))
	if err != nil || len(files) == 0 {
		t.Fatalf("shard %s has no append-only file: %v", s.name, err)
	}
	return slices.Max(files)
}

func (s *shardProcess) logSize(t *testing.T) int64 {
	t.Helper()
	info, err := os.Stat(s.appendOnlyFile(t))
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}
