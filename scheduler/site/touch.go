package site

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"chronos/scheduler/awake"
	"chronos/scheduler/shard"
	"chronos/scheduler/store"
	"chronos/scheduler/timing"
)

// touch is what a node has read of the marks of another site for its own site (rule "in touch").
type touch struct {
	mu     sync.Mutex
	shards map[*shard.Shard]marksRead
	since  time.Duration // since boot, since when the node has read of no mark that counts; 0 if a mark counts
}

// marksRead is a reading of the marks of a shard.
type marksRead struct {
	began  time.Duration // since boot
	some   bool          // there are marks
	marked bool          // a mark is old enough to count
}

// touchInterval is how often the marks of another site are read: a reading and the way of its answer must end within
// TouchLife after the reading before.
const touchInterval = timing.BeatInterval / 2

// readMarks reads the marks of a shard for the own site each touchInterval, until ctx ends.
func (o *Other) readMarks(ctx context.Context, sh *shard.Shard) {
	defer o.touch.forget(sh)
	awake.Sleep(ctx, rand.N(touchInterval)) // readings that begin together must spread out
	ticker := time.NewTicker(touchInterval)
	defer ticker.Stop()
	for {
		o.readMarksOf(ctx, sh)
		if !o.waiting.some() {
			sh.Answers.Outage.Forget() // the site has been told what it missed
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (o *Other) readMarksOf(ctx context.Context, sh *shard.Shard) {
	bounded, cancel := o.s.config.Awake.WithTimeout(ctx, timing.BeatInterval)
	defer cancel()
	began := o.s.config.SinceBoot()
	oldest, err := o.Shards.Store.OldestMark(bounded, sh.Name, o.s.ownName())
	if err != nil {
		return
	}
	o.touch.read(sh, marksRead{began: began, some: oldest >= 0, marked: oldest > timing.YoungMark})
}

func (t *touch) read(sh *shard.Shard, r marksRead) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.shards == nil {
		t.shards = map[*shard.Shard]marksRead{}
	}
	if r.marked {
		t.since = 0
	} else if t.since == 0 {
		t.since = r.began
	}
	t.shards[sh] = r
}

// anyMark reports whether the site has marks for the own site, as far as was read. A mark that is younger than the last reading is about
// a young version, whose end leaves a tombstone.
func (t *touch) anyMark() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.shards {
		if r.some {
			return true
		}
	}
	return false
}

func (t *touch) forget(sh *shard.Shard) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.shards, sh)
}

// read is the earliest of the last readings of all shards of the site that are not silent, and since when the site has
// had no mark for the own site. ok reports whether all were read lately, and no mark counts.
func (o *Other) inTouch(now time.Duration) (read, since time.Duration, ok bool) {
	t := &o.touch
	t.mu.Lock()
	defer t.mu.Unlock()
	asked := false
	read = now
	for _, sh := range o.Shards.All() {
		if sh.Away() {
			continue
		}
		r, known := t.shards[sh]
		if !known || r.marked || now-r.began > timing.TouchLife {
			if known && now-r.began > timing.TouchLife {
				t.since = 0
			}
			return 0, 0, false
		}
		read, asked = min(read, r.began), true
	}
	if !asked {
		t.since = 0
	}
	return read, t.since, asked
}

// Free reports whether a callback of the timer may begin with no look at other sites: the copy is at its home, is not
// overdue by the delay of the other sites, and the home is in touch with the other sites. The answer counts from since
// (since boot). Without other sites every callback is free.
func (s *Sites) Free(r *store.Record, overdue time.Duration) (since time.Duration, free bool) {
	others := s.all()
	now := s.config.SinceBoot()
	if len(others) == 0 {
		return now, true
	}
	if s.home(r) != s.ownName() || overdue >= store.SiteDelay(s.own.Shards.Spacing(r).Skew, r.ID.RF) {
		return 0, false
	}
	since = now
	for _, other := range others {
		read, _, ok := other.inTouch(now)
		if !ok {
			return 0, false
		}
		since = min(since, read)
	}
	return since, true
}

// AtHome reports whether the own site is the home of a copy.
func (s *Sites) AtHome(r *store.Record) bool { return s.home(r) == s.ownName() }

// Sure reports whether the own site has been in touch with all other sites since a version was written: nobody can have
// written another version elsewhere.
func (s *Sites) Sure(r *store.Record) bool {
	now := s.config.SinceBoot()
	age := s.own.Shards.Clock().Sub(r.State.Written().Time())
	for _, other := range s.all() {
		_, since, ok := other.inTouch(now)
		if !ok || since == 0 || now-since < age {
			return false
		}
	}
	return true
}
