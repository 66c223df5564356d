package check

import (
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	earlyTolerance  = time.Millisecond       // X-Chronos-Due has whole milliseconds
	dueSlack        = 5 * time.Millisecond   // rounding up on the way from request to due time
	inFlightLimit   = 2 * time.Second        // from an answer that said in flight to the latest start of a callback
	transitSlack    = 200 * time.Millisecond // from a callback's start to its arrival
	maxWaiting      = 64                     // callbacks of a timer that came before their request was known,
	maxWaitingInAll = 1 << 17                // and of all timers
	never           = math.MaxInt64          // instant
	defaultBound    = time.Second
	defaultSessions = 1 << 20
	shardCount      = 32
)

// ErrFull is returned when no more timers can be followed.
var ErrFull = errors.New("too many timers to follow")

// Config says how strict a Checker is.
type Config struct {
	// Planned makes each callback without a known request a violation. Without Planned, the first callback of a version
	// stands for the request. Early, double and altered callbacks are then found without any call of Tell.
	Planned bool
	// Bound is the longest allowed time from due to arrival; 0 means 1 s.
	Bound time.Duration
	// MaxSessions bounds the number of timers followed at a time, and so the memory; 0 means 2^20.
	MaxSessions int
}

// Checker follows timers and judges their callbacks. A Checker is safe for concurrent use, reads no clock and starts
// nothing.
type Checker struct {
	cfg      Config
	seed     maphash.Seed
	sessions atomic.Int64
	waiting  atomic.Int64 // callbacks that came before their request was known
	shards   [shardCount]shard
}

type shard struct {
	mu       sync.Mutex
	sessions map[string]*session
	tally    tally
}

type session struct {
	key      string // from the first operation
	id       string
	revision int // of the last known operation
	ended    bool
	writes   []*write  // creates and refreshes, in order
	waiting  []arrival // came before their operation was known
}

// write is a create or a refresh, with the outcome. Instants are nanoseconds since 1970.
type write struct {
	revision       int
	ok             bool
	implicit       bool // no known operation: the first callback stands for the operation
	sent, answered int64
	interval       int64
	pops           int
	body           uint64
	version        string // from the first callback
	replaced       int64  // when the next operation was sent
	limit          int64  // no callback may arrive later
	last           int64  // the latest arrival
	seen, done     bitset // by sequence number
}

// arrival is a callback without its body.
type arrival struct {
	Callback
	body uint64
	at   int64
}

// New returns a Checker that knows of no timers.
func New(cfg Config) *Checker {
	if cfg.Bound <= 0 {
		cfg.Bound = defaultBound
	}
	if cfg.MaxSessions <= 0 {
		cfg.MaxSessions = defaultSessions
	}
	c := &Checker{cfg: cfg, seed: maphash.MakeSeed()}
	for i := range c.shards {
		c.shards[i].sessions = make(map[string]*session)
	}
	return c
}

// Tell makes an operation known. The operations of a timer must come in order. Tell returns ErrFull, or an error about
// an operation that is malformed or contradicts earlier operations. A refused operation has no effect.
func (c *Checker) Tell(op Operation) error {
	if err := op.validate(); err != nil {
		return fmt.Errorf("read operation: %w", err)
	}
	sh := c.shardOf(op.Session)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	s, err := c.session(sh, op.Session)
	if err != nil {
		return fmt.Errorf("follow timer: %w", err)
	}
	if op.Revision != s.revision+1 {
		return fmt.Errorf("take operation: revision %d follows %d", op.Revision, s.revision)
	}
	key := KeyOf(op.ID)
	if s.key != "" && key != s.key {
		return fmt.Errorf("take operation: id %q has not the key %q", op.ID, s.key)
	}
	s.revision, s.key, s.id = op.Revision, key, op.ID
	s.ended = op.OK && op.Op == End
	for _, w := range s.writes {
		c.supersede(w, &op, &sh.tally)
	}
	if op.Op != End {
		s.writes = append(s.writes, &write{
			revision: op.Revision, ok: op.OK,
			sent: op.sent(), answered: op.answered(),
			interval: op.IntervalMs * int64(time.Millisecond), pops: op.Pops,
			body:     maphash.String(c.seed, op.Body),
			replaced: never, limit: never,
		})
		s.writes[len(s.writes)-1].take(c, s, &sh.tally)
	}
	sh.tally.operations++
	if !op.OK {
		sh.tally.failed++
	}
	return nil
}

// supersede notes in an earlier write that a later operation came.
func (c *Checker) supersede(w *write, op *Operation, t *tally) {
	w.replaced = min(w.replaced, op.sent())
	if !op.OK {
		return
	}
	limit := op.answered()
	if op.InFlight {
		limit += int64(inFlightLimit + transitSlack)
	}
	w.limit = min(w.limit, limit)
	if w.last > w.limit {
		t.violation(AfterAnswer, func() string {
			return fmt.Sprintf("timer %s revision %d: callback %s after the answer to the %s that followed",
				op.ID, w.revision, time.Duration(w.last-op.answered()), op.Op)
		})
		w.last = 0
	}
}

// take judges the callbacks that came before the write was known.
func (w *write) take(c *Checker, s *session, t *tally) {
	kept := s.waiting[:0]
	for i := range s.waiting {
		if s.waiting[i].Revision == w.revision {
			c.judge(s, w, &s.waiting[i], t)
		} else {
			kept = append(kept, s.waiting[i])
		}
	}
	c.waiting.Add(int64(len(kept) - len(s.waiting)))
	s.waiting = kept
}

// Arrive judges a callback. why is the error of Parse, or nil; an error makes the callback malformed.
func (c *Checker) Arrive(cb *Callback, why error) {
	a := arrival{Callback: *cb, body: maphash.Bytes(c.seed, cb.Body), at: cb.Arrived.UnixNano()}
	a.Body = nil
	name := cb.Session
	if !c.cfg.Planned {
		name, a.Revision = cb.Key+"."+cb.Version, 1
	}
	sh := c.shardOf(name)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	t := &sh.tally
	t.callbacks++
	if a.Attempt > 1 {
		t.retries++
	}
	switch {
	case why != nil:
		t.violation(Altered, func() string { return a.describe() + ": " + why.Error() })
		return
	case name == "":
		t.violation(Unasked, func() string { return a.describe() + ": path names no session" })
		return
	}
	s, err := c.session(sh, name)
	if err != nil {
		t.unfollowed++
		return
	}
	w := s.write(a.Revision)
	if w == nil && !c.cfg.Planned {
		w = s.imply(&a)
	}
	switch {
	case w != nil:
		c.judge(s, w, &a, t)
	case len(s.waiting) < maxWaiting && c.waiting.Load() < maxWaitingInAll:
		s.waiting = append(s.waiting, a)
		c.waiting.Add(1)
	default:
		t.violation(Unasked, func() string { return a.describe() + ": its request is not told of" })
	}
}

// Live calls f for each timer that was created and not ended, with the revision of the timer's last operation.
func (c *Checker) Live(f func(session, id string, revision int)) {
	for i := range c.shards {
		sh := &c.shards[i]
		sh.mu.Lock()
		for name, s := range sh.sessions {
			if !s.ended && s.id != "" {
				f(name, s.id, s.revision)
			}
		}
		sh.mu.Unlock()
	}
}

func (c *Checker) shardOf(name string) *shard {
	return &c.shards[maphash.String(c.seed, name)%shardCount]
}

func (c *Checker) session(sh *shard, name string) (*session, error) {
	if s := sh.sessions[name]; s != nil {
		return s, nil
	}
	if c.sessions.Add(1) > int64(c.cfg.MaxSessions) {
		c.sessions.Add(-1)
		return nil, ErrFull
	}
	s := &session{}
	sh.sessions[name] = s
	return s, nil
}

func (s *session) write(revision int) *write {
	for _, w := range slices.Backward(s.writes) {
		if w.revision == revision {
			return w
		}
	}
	return nil
}

// imply makes the first callback of a version stand for the unknown request.
func (s *session) imply(a *arrival) *write {
	s.key = a.Key
	w := &write{
		revision: a.Revision, implicit: true, pops: MaxPops, body: a.body, version: a.Version,
		replaced: never, limit: never,
	}
	s.writes = append(s.writes, w)
	return w
}

func (a *arrival) describe() string {
	where := ""
	if a.Session != "" {
		where = " revision " + strconv.Itoa(a.Revision)
	}
	return fmt.Sprintf("timer %s%s sequence %d attempt %d", a.TimerID, where, a.Sequence, a.Attempt)
}
