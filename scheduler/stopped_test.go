package scheduler_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"chronos/scheduler/awake"
	"chronos/scheduler/settings"
	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
)

// stop has the process of a test's nodes stand still, once, right after an operation on a shard was
// carried out.
type stop struct {
	op    string
	lasts time.Duration

	mu    sync.Mutex
	armed bool
	begun time.Time     // of the test
	at    time.Time     // of the stop; zero before
	began chan struct{} // closed at the stop
}

func newStop(op string) *stop {
	return &stop{op: op, lasts: 40 * time.Second, begun: time.Now(), began: make(chan struct{})}
}

// clock is the clock of the process, which stands still during the stop.
func (s *stop) clock() (shown, resumed time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch now := time.Now(); {
	case s.at.IsZero():
		return now.Sub(s.begun), 0
	case now.Before(s.at.Add(s.lasts)):
		return s.at.Sub(s.begun), 0
	default:
		return now.Sub(s.begun) - s.lasts, s.at.Sub(s.begun)
	}
}

func (s *stop) arm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed = true
}

func (s *stop) after(op, _ string) error {
	s.mu.Lock()
	stops := s.armed && op == s.op
	if stops {
		s.armed, s.at = false, time.Now()
	}
	s.mu.Unlock()
	if stops {
		close(s.began)
		<-time.After(s.lasts)
	}
	return nil
}

// A node looks at a timer, stops, and goes on to copy the timer. No copy is made: the timer may be
// over, and its tombstones may be gone.
func TestAStoppedNodeMakesNoCopies(t *testing.T) {
	for name, test := range map[string]struct {
		op      string
		rf      int
		arrange func(c *cluster, ids []timer.ID)
	}{
		"by the sweep": {"ask", 1, func(c *cluster, _ []timer.ID) {
			_, _, after := layouts()
			c.Lay(after)
		}},
		"by an outcome": {"settle", 2, func(c *cluster, _ []timer.ID) {
			pass(58500 * time.Millisecond) // the sweep leaves timers that are due soon to their outcome
			c.Wipe("s1")
		}},
		"by a newer version": {"read", 2, func(c *cluster, ids []timer.ID) {
			c.connect("s0", storetest.LinkCut)
			for _, id := range ids {
				if _, err := c.nodes[0].Replace(c.Context(), id, recurring(1500*time.Millisecond, 100)); err != nil {
					c.Error(err)
				}
			}
			c.connect("s0", storetest.LinkUp)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStop(test.op)
				c := newCluster(t, 3, 1, func(config *settings.Config) { config.Awake = awake.Following(s.clock) })
				before, _, _ := layouts()
				c.Lay(before)
				asked := recurring(time.Minute, 100)
				asked.ReplicationFactor = test.rf
				var ids []timer.ID
				for range 40 {
					ids = append(ids, c.create(asked).ID)
				}
				c.Inject(nil, s.after)
				test.arrange(c, ids)
				s.arm()
				<-s.began
				other := startNode(c.T, c.Open("other"), "other", c.recorder, briefly)
				pass(5 * time.Second)
				for _, id := range ids {
					if _, err := other.Delete(c.Context(), id); err != nil {
						c.Error(err)
					}
				}
				pass(30 * time.Second)
				for _, name := range c.Open("probe").Shards() {
					if all := c.Copies(name); len(all) != 0 {
						c.Fatalf("tombstones still on %s: %v", name, all)
					}
				}
				pass(30 * time.Second)
				c.wantEmpty()
			})
		})
	}
}
