package scheduler_test

import (
	"errors"
	"testing"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
)

// TestSeedExample is the long example of duplicated pops in the introduction to Metaswitch's
// Chronos, with its times and the shards that pop. A, B and C are the shards of the timer's copies
// in rank order; of the two nodes one is on either side of the net-split. With the sweep, which the
// example does not know, A pops again one pop sooner.
func TestSeedExample(t *testing.T) {
	for name, e := range map[string]example{
		"with the net-split":            {split: true},
		"both nodes see all that lives": {},
		"with the net-split, and swept": {split: true, sweep: true},
		"they see all, and it is swept": {sweep: true},
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 3, 2, func(c *cluster) {
				e.cluster, e.begun = c, time.Now()
				if !e.sweep {
					c.Inject(func(op, _ string) error {
						if op == "swept" {
							return errNoSweep
						}
						return nil
					}, nil)
				}
				asked := recurring(20*time.Second, 6)
				asked.ReplicationFactor = 3
				e.key = c.create(asked).ID.Key
				e.homes = c.homes(e.key, 3)
				e.run()
			})
		})
	}
}

var errNoSweep = errors.New("no sweep here")

type example struct {
	*cluster
	split   bool // while A is away, one node reaches B, the second node reaches C
	sweep   bool
	begun   time.Time
	key     string
	homes   []string // A, B, C
	reached int      // callbacks so far
}

// at lets time pass until n seconds and a half after the beginning.
func (e *example) at(n int) {
	pass(time.Until(e.begun.Add(time.Duration(n)*time.Second + 500*time.Millisecond)))
}

// pops checks that since the last step only the n-th pop came, at so many seconds.
func (e *example) pops(n, seconds int) {
	e.Helper()
	seen := e.callbacks(e.key)[e.reached:]
	e.reached += len(seen)
	if len(seen) != 1 || seen[0].Seq != n || seen[0].Attempt != 1 {
		e.Fatalf("callbacks %+v, want pop %d", seen, n)
	}
	at := seen[0].at.Sub(e.begun)
	if want := time.Duration(seconds) * time.Second; at < want || at > want+maxLate {
		e.Errorf("pop %d came at %v, want %v", n, at, want)
	}
}

// copies checks when the copies on A, B and C are looked at next, in seconds; 0 for a shard without
// a copy, -1 for a dead shard.
func (e *example) copies(seconds ...int) {
	e.Helper()
	for i, want := range seconds {
		if want < 0 {
			continue
		}
		read := e.Open("probe").Read(e.Context(), []store.Spot{{Shard: e.homes[i], Key: e.key}})[0]
		got := 0
		if read.Err == nil {
			got = int(read.Look.Sub(e.begun).Round(time.Second).Seconds())
		}
		if got != want {
			e.Errorf("replica %c is to pop at %d, want %d", 'A'+i, got, want)
		}
	}
}

func (e *example) run() {
	a, b, c := e.homes[0], e.homes[1], e.homes[2]
	e.copies(20, 22, 24)
	e.at(20)
	e.pops(1, 20)
	e.copies(40, 42, 44)

	e.connect(a, storetest.LinkCut) // A fails
	e.at(40)
	if n := len(e.callbacks(e.key)); n != e.reached {
		e.Errorf("at time 40 something happened")
	}
	e.at(42)
	e.pops(2, 42)
	e.copies(-1, 62, 64)

	if e.split {
		e.Connect(nodeName(0), c, storetest.LinkCut)
		e.Connect(nodeName(1), b, storetest.LinkCut)
	}
	e.at(62)
	e.pops(3, 62)
	e.at(64)
	if e.split {
		e.copies(-1, 82, 84)
		e.pops(3, 64) // a duplicate, as the same version and sequence number say
		e.Connect(nodeName(0), c, storetest.LinkUp)
		e.Connect(nodeName(1), b, storetest.LinkUp)
	}
	e.copies(-1, 82, 84)
	e.at(82)
	e.pops(4, 82)
	e.copies(-1, 102, 104)

	e.Wipe(a) // A recovers, without data
	e.connect(a, storetest.LinkUp)
	if e.sweep {
		e.at(95)
		e.copies(100, 102, 104)
		e.at(100)
		e.pops(5, 100)
	}
	e.at(102)
	if !e.sweep {
		e.pops(5, 102)
	}
	e.copies(120, 122, 124)

	e.at(120)
	e.pops(6, 120)
	e.copies(0, 0, 0)
	if e.sweep { // tombstones stay until a shard that was away is swept
		e.wantEmpty()
	}
	versions := map[timer.Version]bool{}
	for _, call := range e.callbacks(e.key) {
		versions[call.Version] = true
	}
	if len(versions) != 1 {
		e.Errorf("callbacks of %d versions, want one", len(versions))
	}
}
