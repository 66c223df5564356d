package processtest

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"chronos/scheduler/verify/history"
	"chronos/scheduler/verify/testkit"
)

var (
	// make check runs the short form. The full form takes some 35 minutes:
	// go test -count=1 -v -timeout 60m -run TestCopies ./cmd/chronos/processtest -args -faults.full
	faultsFull = flag.Bool("faults.full", false, "TestCopies: more timers a second, each fault three times, until the last tombstone is gone")
	faultsRate = flag.Int("faults.rate", 1000, "timers a second of a full run; without a fault they take half of the processors at most")
	faultsKeep = flag.String("faults.keep", "", "folder that gets the histories and the nodes' logs")
)

// plan is the size of a run.
type plan struct {
	full bool
	keep string
	test string // runs the scenario; "" for TestCopies
}

// either chooses a number, for a short or for a full run.
func (p plan) either(short, full int) int {
	if p.full {
		return full
	}
	return short
}

func (p plan) seconds(short, full int) time.Duration {
	return time.Duration(p.either(short, full)) * time.Second
}

func (p plan) command(name string) string {
	more := ""
	if p.full {
		more = fmt.Sprintf(" -timeout 30m -args -faults.full -faults.rate=%d", *faultsRate)
	}
	return fmt.Sprintf("go test ./cmd/chronos/processtest -run '%s$' -v%s", cmp.Or(p.test, "TestCopies/"+name), more)
}

// mix is the load. In a short run, with a race detector and beside another scenario, the load
// takes a third of two processors. A machine half as fast can bear the load, too.
func (p plan) mix() mix {
	return mix{
		rate: p.either(100, *faultsRate), recurring: 0.1, deletes: 0.15, replaces: 0.1, gets: 0.1,
		longest: p.seconds(4, 8), longestRecurring: p.seconds(5, 8) / 2,
	}
}

// repairs is how long a shard's fault may show after the end of the fault: until the missed
// writes are known, and the sweep has waited and has passed. Nor does the fault show once all
// timers that lack a copy on the shard are over.
func (p plan) repairs() time.Duration {
	m := p.mix()
	return min(max(m.longest, recurringPops*m.longestRecurring)+time.Second, 15*time.Second)
}

// exempt are the invariants that are not judged: nodes shrink again (see sample); in a short
// run also: copies are in place 60 s after a fault.
func (p plan) exempt() []history.Invariant {
	if p.full {
		return []history.Invariant{history.BackToNormal}
	}
	return []history.Invariant{history.BackToNormal, history.CopiesAtHome}
}

// limits are the tolerances. Tombstones may remain for their whole life; a full run waits until
// all tombstones are gone. A short run shares the processors with another scenario, so the bounds
// on lateness without a fault are wide.
func (p plan) limits() history.Limits {
	l := history.DefaultLimits()
	l.MinPerFault = p.either(1, 3)
	l.Network = 100 * time.Millisecond
	if !p.full {
		l.MinInWindows = 0.1
		l.Late, l.NodeWaiting = time.Second, 2500*time.Millisecond
	}
	return l
}

// TestCopies runs nodes on three shards under load, and makes shards and nodes fail. No timer is
// lost or early, or called twice without a fault as the reason, and no timer is left over.
// The package chronos/scheduler/verify/history judges the recording of a run.
func TestCopies(t *testing.T) {
	t.Parallel()
	testkit.Program(t, "redis-server")
	p := plan{full: *faultsFull, keep: *faultsKeep}
	all := p.scenarios()
	var wg, loads sync.WaitGroup
	defer wg.Wait()
	loads.Add(len(all))
	turns := make(chan struct{}, p.either(2, 1)) // so many scenarios have load at once
	for _, s := range all {
		turns <- struct{}{}
		release := sync.OnceFunc(func() {
			loads.Done()
			<-turns
		})
		wg.Go(func() {
			defer release()
			// Judging takes all processors for seconds, so no run is judged while a scenario has load.
			t.Run(s.name, func(t *testing.T) { runScenario(t, s, p, release, loads.Wait) })
		})
	}
}

// keepLogs writes the logs of the nodes to files.
func (r *rig) keepLogs() {
	r.t.Helper()
	for _, log := range r.cluster.logs {
		path := filepath.Join(r.plan.keep, r.scenario.name+"-"+log.name+".log")
		if err := os.WriteFile(path, []byte(log.log.String()), 0o600); err != nil {
			r.t.Errorf("keep the log: %v", err)
		}
	}
}
