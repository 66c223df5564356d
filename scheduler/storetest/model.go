package storetest

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"time"

	"chronos/scheduler"
)

// Model keeps timers in memory by rules.go: one copy of each, on the shard that
// a hash of its key chooses. Open gives each node its scheduler.Store. It starts
// no goroutine and its clock is time.Now, so in a synctest bubble it keeps the
// bubble's time. All methods are safe for concurrent use.
type Model struct {
	mu            sync.Mutex
	names         []string
	shards        map[string]*shard
	now           func() time.Time
	before, after Hook
}

// Hook fails a call of an operation (a method of scheduler.Store in lower case)
// on one shard by returning an error. It may block: the model isn't locked
// meanwhile.
type Hook func(op, shard string) error

// shard is one part of a Model.
type shard struct {
	name    string
	entries map[string]*entry
	dead    []DeadLetter
	beats   map[string]int64 // node to ms
}

// NewModel makes an empty model of the named shards, of one named main if none
// is named.
func NewModel(shards ...string) *Model {
	if len(shards) == 0 {
		shards = []string{"main"}
	}
	m := &Model{names: slices.Clone(shards), shards: make(map[string]*shard, len(shards)), now: time.Now}
	for _, name := range shards {
		m.shards[name] = &shard{name: name, entries: map[string]*entry{}, beats: map[string]int64{}}
	}
	return m
}

// SetClock makes now the clock of all shards.
func (m *Model) SetClock(now func() time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = now
}

// Inject has each call fail as the hooks say. When before returns an error the
// call is not executed; when after does, it was executed and its answer is lost.
// Either may be nil.
func (m *Model) Inject(before, after Hook) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.before, m.after = before, after
}

// Open gives a node its view of the store.
func (m *Model) Open(node string) scheduler.Store { return &view{m: m, node: node} }

// DeadLetters returns what was given up on a shard, oldest first.
func (m *Model) DeadLetters(name string) []DeadLetter {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.shards[name].dead)
}

// Apply makes changes to the copies on a shard: what the merge script can do and
// no method of scheduler.Store asks for yet.
func (m *Model) Apply(name string, changes []Change) []Changed {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, answers := m.time(), make([]Changed, len(changes))
	for i, c := range changes {
		answers[i] = m.shards[name].merge(now, c)
	}
	return answers
}

// time is the shards' clock, in whole microseconds as Redis gives it.
func (m *Model) time() time.Time { return m.now().Truncate(time.Microsecond) }

// home is the shard of a timer's only copy and the hint that names it.
func (m *Model) home(key string) (name string, hint scheduler.Hint) {
	name = m.names[hash(key)%uint64(len(m.names))]
	return name, scheduler.HintOf(hash(name))
}

func hash(s string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s)) // never fails
	return h.Sum64()
}

// call carries out one operation on one shard, unless ctx or a hook forbids it.
// Its error wraps ErrUnavailable.
func (m *Model) call(ctx context.Context, op, name string, do func(s *shard, now time.Time)) error {
	m.mu.Lock()
	s, before, after := m.shards[name], m.before, m.after
	m.mu.Unlock()
	if s == nil {
		return fmt.Errorf("%w: no shard is named %q", scheduler.ErrUnavailable, name)
	}
	if err := hold(ctx, before, op, name); err != nil {
		return err
	}
	m.mu.Lock()
	do(s, m.time())
	m.mu.Unlock()
	return hold(ctx, after, op, name)
}

func hold(ctx context.Context, hook Hook, op, name string) error {
	if hook != nil {
		if err := hook(op, name); err != nil {
			return fmt.Errorf("%w: shard %s: %w", scheduler.ErrUnavailable, name, err)
		}
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: shard %s: %w", scheduler.ErrUnavailable, name, err)
	}
	return nil
}

// dueBy is what must be looked at by an instant, earliest first.
func (s *shard) dueBy(lookMs int64) []string {
	var keys []string
	for key, e := range s.entries {
		if e.lookMs <= lookMs {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(s.entries[a].lookMs, s.entries[b].lookMs), strings.Compare(a, b))
	})
	return keys
}

// record is the copy as the scheduler sees it.
func (s *shard) record(key string, e *entry) scheduler.Record {
	return scheduler.Record{
		ID:    scheduler.ID{Key: key, RF: e.rf, Hint: scheduler.HintOf(hash(s.name))},
		State: e.state, Timer: e.timer, Rank: e.rank, Start: time.UnixMilli(e.startMs).UTC(), Failure: e.failure,
		BodyHash: e.bodyHash,
	}
}

func nodeOf(token string) string {
	node, _, _ := strings.Cut(token, ":")
	return node
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// ceilMs rounds up: a timer is never early by a rounding.
func ceilMs(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }
