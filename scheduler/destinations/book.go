package destinations

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

// ErrFull says that a destination can't be paused since too many destinations are.
var ErrFull = errors.New("too many destinations are paused, or were paused within a day")

// Limit bounds the callbacks to a destination by all nodes together. Zero values are no bounds.
type Limit struct {
	Rate        float64 // callbacks per second
	Burst       int     // callbacks at once; at least 1 with a rate
	Concurrency int     // callbacks under way
}

// Share is what a Limit leaves to this node. Zero values are no bounds.
type Share struct {
	Rate        float64 // callbacks per second
	Burst       float64 // callbacks at once; at least 1 with a rate
	Concurrency int     // callbacks under way
}

// Rules are the limits and pauses at a moment. Nobody changes Rules.
type Rules struct {
	nodes  int
	shares map[string]Share
	paused map[string]time.Time // the end of the pause, by this node's clock
}

// Nodes is how many live nodes share the limits.
func (r *Rules) Nodes() int { return r.nodes }

// Paused reports whether the destination is paused at an instant.
func (r *Rules) Paused(destination string, now time.Time) bool {
	ends, is := r.paused[destination]
	return is && now.Before(ends)
}

// Share is this node's share of the destination's limit; zero without a limit.
func (r *Rules) Share(destination string) Share { return r.shares[destination] }

// View is a destination as an operator sees it.
type View struct {
	Destination string
	Limit       Limit     // zero without a limit
	Until       time.Time // the end of the pause; zero without a pause
	InFlight    int       // callbacks of this node under way, and about to begin
}

// Pausing is what became of an operator's decision about a destination.
type Pausing struct {
	Destination string    // by its one name
	Until       time.Time // the end of the pause; zero after a resume
	Untold      []string  // the shards that could not be told, by name
}

// Book has the limits and the decisions about destinations that this node knows. Book is safe for
// concurrent use, and blocks on nothing.
type Book struct {
	parse func(text string) (string, error)
	rules atomic.Pointer[Rules] // nil without a limit and without a pause

	mu        sync.Mutex
	nodes     int
	limits    map[string]Limit
	decisions map[string]decision
}

type decision struct {
	store.Decision
	ends time.Time // of a pause, by this node's clock
}

// NewBook makes an empty book. parse returns the one name of a destination that has several
// spellings, and refuses texts that are no destination; nil for every text as it is.
func NewBook(parse func(text string) (string, error)) *Book {
	if parse == nil {
		parse = func(text string) (string, error) { return text, nil }
	}
	return &Book{parse: parse, nodes: 1, decisions: make(map[string]decision)}
}

// Parse is the name of the destination that the text means. The error says what is wrong with the
// text, without the text.
func (b *Book) Parse(text string) (string, error) { return b.parse(text) }

// Rules are the rules that hold now; nil for none.
func (b *Book) Rules() *Rules { return b.rules.Load() }

// Limit takes new limits in place of all former limits. The caller leaves the map alone from now on.
func (b *Book) Limit(limits map[string]Limit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.limits = limits
	b.rule(time.Now())
}

// Live takes the number of live nodes, which share the limits.
func (b *Book) Live(nodes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if nodes = max(nodes, 1); nodes != b.nodes {
		b.nodes = nodes
		b.rule(time.Now())
	}
}

// maxKnown is how many decisions the book has at most. Shards that were apart may have different
// ones.
const maxKnown = 2 * store.MaxDecisions

// Hear takes the decisions of a shard, and returns the decisions of which the shard has not heard.
// Wall is the time of the wall clock.
func (b *Book) Hear(from []store.Decision, wall time.Time) (unheard []store.Decision) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(from) == 0 && len(b.decisions) == 0 {
		return nil
	}
	now := time.Now()
	changed := b.forget(now, wall)
	told := make(map[string]timer.Version, len(from))
	for i := range from {
		d := &from[i]
		told[d.Destination] = d.Stamp
		changed = b.take(d, now, wall) || changed
	}
	if changed {
		b.rule(now)
	}
	for name, d := range b.decisions {
		if told[name] < d.Stamp {
			unheard = append(unheard, d.Decision)
		}
	}
	return unheard
}

// take keeps a decision that is later than the known decision, and reports whether the rules change.
func (b *Book) take(d *store.Decision, now, wall time.Time) bool {
	old, known := b.decisions[d.Destination]
	ends := now.Add(d.Left)
	switch {
	case d.Stamp < old.Stamp, outlived(d.Stamp, wall), !known && len(b.decisions) >= maxKnown:
		return false
	case d.Stamp > old.Stamp:
		b.decisions[d.Destination] = decision{*d, ends}
		return true
	case ends.Sub(old.ends) < time.Second: // clocks of shards differ a little
		return false
	}
	old.ends = ends
	b.decisions[d.Destination] = old
	return true
}

// forget removes decisions that no earlier pause outlasts, and reports whether a pause has ended.
func (b *Book) forget(now, wall time.Time) (ended bool) {
	maps.DeleteFunc(b.decisions, func(_ string, d decision) bool { return outlived(d.Stamp, wall) })
	if rules := b.rules.Load(); rules != nil {
		for _, ends := range rules.paused {
			ended = ended || !now.Before(ends)
		}
	}
	return ended
}

// outlived reports whether every pause is over that was decided before the stamp.
func outlived(stamp timer.Version, wall time.Time) bool {
	return wall.Sub(stamp.Time()) > timing.KnownDecisionLife
}

// Known is the latest decision about a destination; the zero Decision for none.
func (b *Book) Known(destination string) store.Decision {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.decisions[destination].Decision
}

// Views are the destinations with a limit or a pause, by name.
func (b *Book) Views() []View {
	b.mu.Lock()
	defer b.mu.Unlock()
	by := make(map[string]View, len(b.limits))
	for name, limit := range b.limits {
		by[name] = View{Destination: name, Limit: limit}
	}
	now := time.Now()
	for name, d := range b.decisions {
		if d.pauses(now) {
			by[name] = View{Destination: name, Limit: b.limits[name], Until: d.Until}
		}
	}
	return slices.SortedFunc(maps.Values(by), func(x, y View) int { return cmp.Compare(x.Destination, y.Destination) })
}

// Paused is how many destinations are paused now.
func (b *Book) Paused() (n int) {
	rules, now := b.rules.Load(), time.Now()
	if rules == nil {
		return 0
	}
	for _, ends := range rules.paused {
		if now.Before(ends) {
			n++
		}
	}
	return n
}

func (d *decision) pauses(now time.Time) bool { return !d.Until.IsZero() && now.Before(d.ends) }

// rule makes the rules anew; b.mu is held.
func (b *Book) rule(now time.Time) {
	rules := &Rules{nodes: b.nodes, shares: make(map[string]Share, len(b.limits)), paused: make(map[string]time.Time)}
	for name, limit := range b.limits {
		rules.shares[name] = limit.among(b.nodes)
	}
	for name, d := range b.decisions {
		if d.pauses(now) {
			rules.paused[name] = d.ends
		}
	}
	if len(rules.shares)+len(rules.paused) == 0 {
		rules = nil
	}
	b.rules.Store(rules)
}

// among is the share of one of the nodes. A node always has one callback under way, and one at once.
func (l Limit) among(nodes int) Share {
	s := Share{Rate: l.Rate / float64(nodes)}
	if l.Rate > 0 {
		s.Burst = max(float64(l.Burst)/float64(nodes), 1)
	}
	if l.Concurrency > 0 {
		s.Concurrency = max(l.Concurrency/nodes, 1)
	}
	return s
}
