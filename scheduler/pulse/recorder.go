package pulse

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// half is half of the time that the figures are about. The figures are of the last half and of the present
	// half, so of the last 5 to 10 s.
	half = 5 * time.Second
	// maxDestinations is how many destinations are remembered.
	maxDestinations = 1000
)

// Recorder counts the callbacks of a node. The zero value has counted nothing. A Recorder is safe for
// concurrent use.
type Recorder struct {
	mu       sync.Mutex
	began    time.Time // of the present half; zero before the first callback
	all      [2]counts // of the present half, and of the half before
	late     [2]histogram
	by       map[string]*destination
	fullFrom time.Time // when the destinations were last searched for a destination to forget
}

type counts struct{ fired, failed uint32 }

type destination struct {
	counts [2]counts
	took   [2]histogram
	last   string
}

// Callback is a callback that is over.
type Callback struct {
	Destination string        // scheme://host:port
	Took        time.Duration // from the beginning to the answer
	Failed      bool
	Answer      string // such as "status 503"; "" if unknown
}

// Late counts the first callback of a pop, which comes so long after the pop is due.
func (r *Recorder) Late(by time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn(time.Now())
	r.late[0].add(by)
}

// Count counts a callback that is over.
func (r *Recorder) Count(c *Callback) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.turn(now)
	r.all[0].add(c.Failed)
	d := r.destination(c.Destination, now)
	if d == nil {
		return
	}
	d.counts[0].add(c.Failed)
	d.took[0].add(c.Took)
	d.last = c.Answer
}

func (c *counts) add(failed bool) {
	if failed {
		c.failed++
		return
	}
	c.fired++
}

// turn begins a new half when the present half is over.
func (r *Recorder) turn(now time.Time) {
	passed := now.Sub(r.began)
	if passed < half {
		return
	}
	if passed >= 2*half { // nothing was counted in the half before
		r.all[0], r.late[0] = counts{}, histogram{}
		for _, d := range r.by {
			d.counts[0], d.took[0] = counts{}, histogram{}
		}
		r.began = now.Add(-passed % half)
	} else {
		r.began = r.began.Add(half)
	}
	r.all = [2]counts{{}, r.all[0]}
	r.late[1], r.late[0] = r.late[0], histogram{}
	for _, d := range r.by {
		d.counts = [2]counts{{}, d.counts[0]}
		d.took[1], d.took[0] = d.took[0], histogram{}
	}
}

// destination is what is counted of a destination; nil if too many destinations are busy. r.mu is held.
func (r *Recorder) destination(name string, now time.Time) *destination {
	d := r.by[name]
	if d != nil {
		return d
	}
	if len(r.by) >= maxDestinations && !r.forgetIdle(now) {
		return nil
	}
	if r.by == nil {
		r.by = make(map[string]*destination)
	}
	d = &destination{}
	r.by[name] = d
	return d
}

// forgetIdle forgets the destinations without a callback, at most once a second, and reports whether there is
// room.
func (r *Recorder) forgetIdle(now time.Time) bool {
	if now.Sub(r.fullFrom) < time.Second {
		return false
	}
	r.fullFrom = now
	maps.DeleteFunc(r.by, func(_ string, d *destination) bool { return d.counts == [2]counts{} })
	return len(r.by) < maxDestinations
}

// Figures are a node's figures of the last 5 to 10 s.
type Figures struct {
	Fired, Failed float64 // callbacks in a second
	Late          Quantiles
	// Destinations are the destinations with callbacks, the busiest first.
	Destinations []Busy
}

// Quantiles are quantiles of durations, each at most an eighth too long; zero if there are no durations.
type Quantiles struct{ P50, P99, P999, Max time.Duration }

// Busy is a destination with callbacks.
type Busy struct {
	Destination   string
	Fired, Failed float64       // callbacks in a second
	P99           time.Duration // of how long callbacks take
	Last          string        // the answer last seen; "" for none
}

// Figures are the figures of now.
func (r *Recorder) Figures() Figures {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.turn(now)
	over := (half + now.Sub(r.began)).Seconds()
	rate := func(of *[2]counts) (fired, failed float64) {
		return float64(of[0].fired+of[1].fired) / over, float64(of[0].failed+of[1].failed) / over
	}
	var f Figures
	f.Fired, f.Failed = rate(&r.all)
	late := r.late[1]
	late.join(&r.late[0])
	f.Late = Quantiles{late.quantile(.5), late.quantile(.99), late.quantile(.999), late.longest}
	for name, d := range r.by {
		if d.counts == [2]counts{} {
			continue
		}
		busy := Busy{Destination: name, Last: d.last}
		busy.Fired, busy.Failed = rate(&d.counts)
		took := d.took[1]
		took.join(&d.took[0])
		busy.P99 = took.quantile(.99)
		f.Destinations = append(f.Destinations, busy)
	}
	slices.SortFunc(f.Destinations, func(a, b Busy) int {
		return cmp.Or(cmp.Compare(b.Fired+b.Failed, a.Fired+a.Failed), strings.Compare(a.Destination, b.Destination))
	})
	return f
}
