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
	// make check runs the short form. The full one takes some 35 minutes:
	// go test -count=1 -v -timeout 60m -run TestCopies ./cmd/chronos/processtest -args -faults.full
	faultsFull = flag.Bool("faults.full", false, "TestCopies: 1,000 timers a second, each fault three times, until the last tombstone is gone")
	faultsKeep = flag.String("faults.keep", "", "folder that gets the histories and the nodes' logs")
)

// plan is the size of a run.
type plan struct {
	full bool
	keep string
	test string // that runs the scenario; "" for TestCopies
}

// either is one of two numbers, for a short and for a full run.
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
		more = " -timeout 30m -args -faults.full"
	}
	return fmt.Sprintf("go test ./cmd/chronos/processtest -run '%s$' -v%s", cmp.Or(p.test, "TestCopies/"+name), more)
}

// mix is the load. In a short run, with a race detector and beside another scenario, it
// takes a third of two processors, so that one that is half as fast bears it too.
func (p plan) mix() mix {
	return mix{
		rate: p.either(100, 1000), recurring: 0.1, deletes: 0.1, replaces: 0.1, gets: 0.1,
		longest: p.seconds(4, 8), longestRecurring: p.seconds(5, 8) / 2,
	}
}

// repairs is how long after its end a shard's fault may show: until what it missed is
// known, the sweep has waited and has passed, or until all timers are over that lack a
// copy on it.
func (p plan) repairs() time.Duration {
	m := p.mix()
	return min(max(m.longest, recurringPops*m.longestRecurring)+time.Second, 15*time.Second)
}

// exempt are the invariants that are not judged: that nodes shrink again (see
// sample), and, in a short run, that copies are in place 60 s after a fault.
func (p plan) exempt() []history.Invariant {
	if p.full {
		return []history.Invariant{history.BackToNormal}
	}
	return []history.Invariant{history.BackToNormal, history.CopiesAtHome}
}

// limits are the tolerances. Tombstones may be there for as long as they live; a
// full run waits until there are none. A short one shares the processors with other
// scenarios, so its bounds on lateness without a fault are wide.
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

// TestCopies runs nodes on three shards under load and has shards and nodes fail:
// no timer is lost, early, or called twice without a fault that explains it, and
// nothing is left over. What a run recorded is judged by chronos/scheduler/verify/history.
func TestCopies(t *testing.T) {
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
			// Judging takes all processors for seconds: none of it while others have load.
			t.Run(s.name, func(t *testing.T) { runScenario(t, s, p, release, loads.Wait) })
		})
	}
}

// keepLogs writes what the nodes have logged.
func (r *rig) keepLogs() {
	r.t.Helper()
	for _, log := range r.cluster.logs {
		path := filepath.Join(r.plan.keep, r.scenario.name+"-"+log.name+".log")
		if err := os.WriteFile(path, []byte(log.log.String()), 0o600); err != nil {
			r.t.Errorf("keep the log: %v", err)
		}
	}
}
