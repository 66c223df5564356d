package storetest

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// Model keeps timers in memory by rules.go. Open gives each node its store.Store. A Model starts no goroutine. Its
// clock is time.Now, so in a synctest bubble the model keeps the bubble's time. All methods are safe for concurrent
// use.
type Model struct {
	mu            sync.Mutex
	layout        Layout
	layouts       map[string]Layout // of nodes that know another layout
	changed       chan struct{}     // closed when any layout has changed
	shards        map[string]*shard
	logs          int // entries of the log that a partition keeps; 0 for no log
	now           func() time.Time
	before, after Hook
	links         map[[2]string]Link // of node and shard
}

// Hook fails a call of an operation (a method of store.Store in lower case) on one shard by returning an error. A
// Hook may block: the model isn't locked during the Hook.
type Hook func(op, shard string) error

// shard is one part of a Model.
type shard struct {
	name    string
	entries map[string]*entry
	idleMs  int64 // no copy must be looked at before, unless a call other than a claim has changed copies since
	dead    []DeadLetter
	log     []store.LogEntry // of attempts, the oldest first
	beats   map[string]int64 // node to ms
	clocks  map[string]announced
	told    map[string]told
	pauses  map[string]store.Decision // by destination
	swept   store.SweepState
	marks   map[store.Mark]time.Time // since when, by the mark without the age
	filled  []string                 // sites
	// missedSince is when the shard began to miss writes; nil if the shard lacks nothing.
	missedSince *time.Time
}

// announced is a node's announcement, and its time by the shard's clock.
type announced struct {
	store.Announcement
	at time.Time
}

var _ store.Inspector = (*view)(nil)

// told is what a node has told of itself, and when.
type told struct {
	text string
	at   time.Time
}

// NewModel makes an empty model of the named shards, or of a shard named main if no shard is named.
func NewModel(shards ...string) *Model {
	if len(shards) == 0 {
		shards = []string{"main"}
	}
	m := &Model{shards: make(map[string]*shard, len(shards)), now: time.Now, links: map[[2]string]Link{}, changed: make(chan struct{})}
	m.Lay(Layout{Shards: slices.Clone(shards)})
	return m
}

func newShard(name string) *shard {
	return &shard{name: name, entries: map[string]*entry{}, beats: map[string]int64{}, clocks: map[string]announced{}, told: map[string]told{}, pauses: map[string]store.Decision{}, marks: map[store.Mark]time.Time{}}
}

// SetClock makes now the clock of all shards.
func (m *Model) SetClock(now func() time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = now
}

// Inject has calls fail as the hooks say. When before returns an error, the call is not executed; when after does,
// the call was executed and the answer is lost. Either hook may be nil.
func (m *Model) Inject(before, after Hook) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.before, m.after = before, after
}

// Open gives a node its view of the store.
func (m *Model) Open(node string) store.Store { return &view{m: m, node: node} }

// DeadLetters returns the timers that were given up on a shard, oldest first.
func (m *Model) DeadLetters(name string) []DeadLetter {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.shards[name].dead)
}

// time is the shards' clock, in whole microseconds as from Redis.
func (m *Model) time() time.Time { return m.now().Truncate(time.Microsecond) }

func hash(s string) uint64 { return xxhash.Sum64String(s) }

// Link is how a node and a shard are connected.
type Link int

// How a node and a shard are connected.
const (
	LinkUp    Link = iota
	LinkCut        // refused at once
	LinkMute       // nothing arrives, and nothing comes back
	LinkLossy      // calls that arrive are carried out; no answer comes back
)

// silentFor is how long a call waits for an answer.
const silentFor = 900 * time.Millisecond

// Connect changes the link of a node and a shard.
func (m *Model) Connect(node, shard string, link Link) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.links[[2]string{node, shard}] = link
}

// Wipe has a shard lose all data but the dead letters, as a Redis that comes back without its data.
func (m *Model) Wipe(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.shards[name]
	s.idleMs, s.entries, s.swept, s.missedSince = 0, map[string]*entry{}, store.SweepState{Restarted: true}, nil
	s.beats, s.clocks, s.told = map[string]int64{}, map[string]announced{}, map[string]told{}
	s.pauses, s.log, s.marks, s.filled = map[string]store.Decision{}, nil, map[store.Mark]time.Time{}, nil
}

// Save remembers a shard's contents. The returned function takes the shard back to these contents, as a Redis that
// comes back without the writes that were not on disk.
func (m *Model) Save(name string) (rollBack func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	entries := make(map[string]*entry, len(m.shards[name].entries))
	for key, e := range m.shards[name].entries {
		saved := *e
		entries[key] = &saved
	}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		s := m.shards[name]
		s.idleMs, s.entries, s.swept.Restarted = 0, entries, true
	}
}

// Copies are the live and ended timers of a shard with their states.
func (m *Model) Copies(name string) map[string]timer.State {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make(map[string]timer.State)
	for key, e := range m.shards[name].entries {
		all[key] = e.state
	}
	return all
}

func unanswered(ctx context.Context, name string) error {
	asked := time.NewTimer(silentFor)
	defer asked.Stop()
	select {
	case <-asked.C:
		return fmt.Errorf("%w: shard %s: no answer", timer.ErrUnavailable, name)
	case <-ctx.Done():
		return fmt.Errorf("%w: shard %s: %w", timer.ErrUnavailable, name, ctx.Err())
	}
}

// call carries out one operation of a node on one shard, unless ctx, a hook or the link forbids the operation. The
// error wraps ErrUnavailable.
func (m *Model) call(ctx context.Context, node, op, name string, do func(s *shard, now time.Time)) error {
	m.mu.Lock()
	s, before, after, link := m.shards[name], m.before, m.after, m.links[[2]string{node, name}]
	m.mu.Unlock()
	switch {
	case s == nil, !slices.Contains(m.layoutOf(node).Shards, name):
		return fmt.Errorf("%w: no shard is named %q", timer.ErrUnavailable, name)
	case link == LinkCut:
		return fmt.Errorf("%w: shard %s is cut off", timer.ErrRefused, name)
	case link == LinkMute:
		return unanswered(ctx, name)
	}
	if err := hold(ctx, before, op, name); err != nil {
		return err
	}
	m.mu.Lock()
	if op != "claim" {
		s.idleMs = 0
	}
	do(s, m.time())
	m.mu.Unlock()
	if link == LinkLossy {
		return unanswered(ctx, name)
	}
	return hold(ctx, after, op, name)
}

func hold(ctx context.Context, hook Hook, op, name string) error {
	if hook != nil {
		if err := hook(op, name); err != nil {
			return fmt.Errorf("%w: shard %s: %w", timer.ErrUnavailable, name, err)
		}
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: shard %s: %w", timer.ErrUnavailable, name, err)
	}
	return nil
}

// dueBy are the copies that must be looked at by an instant, earliest first.
func (s *shard) dueBy(lookMs int64) []string {
	if lookMs < s.idleMs {
		return nil
	}
	var keys []string
	first := int64(math.MaxInt64)
	for key, e := range s.entries {
		first = min(first, e.lookMs)
		if e.lookMs <= lookMs {
			keys = append(keys, key)
		}
	}
	if s.idleMs = 0; len(keys) == 0 {
		s.idleMs = first
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(s.entries[a].lookMs, s.entries[b].lookMs), strings.Compare(a, b))
	})
	return keys
}

// record is the copy as the scheduler sees the copy.
func (s *shard) record(key string, e *entry) store.Record {
	return store.Record{
		ID:    timer.ID{Key: key, RF: e.rf},
		State: e.state, Timer: e.timer, Rank: e.rank, Start: time.UnixMilli(e.startMs).UTC(), Failure: e.failure, LeftOut: e.leftOut, Site: e.site,
		BodyHash: e.bodyHash, Away: slices.Clone(e.away),
	}
}

func nodeOf(token string) string {
	node, _, _ := strings.Cut(token, ":")
	return node
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// ceilMs rounds up: no rounding makes a timer early.
func ceilMs(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }
