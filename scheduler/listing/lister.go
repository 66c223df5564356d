package listing

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"chronos/scheduler/settings"
	"chronos/scheduler/shard"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/walk"
)

const (
	// MaxLooked is how many copies a request looks at, about.
	MaxLooked = 20000
	// patience is how long a page is put together before the page is sent as it is.
	patience = time.Second
	// maxRounds is how many requests of a node ask the shards at once, turnPatience how long a request waits for its
	// turn. maxLong is how many requests may ask more than once: each leaves the shards time in between. A further
	// request answers what it has found.
	maxRounds, maxLong = 2, 2
	turnPatience       = time.Second
	// PerRound is how many copies of each partition of each shard are looked at together.
	PerRound = 100
	// share is the share of a shard's time that lists may take: 1 in share.
	share = 20
	// slack is how long behind DueBefore the walk goes on. A backup is looked at so much later than its pop is
	// due, at most.
	slack = 10 * time.Second
)

// Lister finds timers. All methods are safe for concurrent use.
type Lister struct {
	config      *settings.Config
	shards      *shard.Registry
	store       store.Store
	destination func(timer.Callback) string
	actions     Actions

	rounds, long chan struct{}
	pace         *rate.Limiter // of bulk changes

	mu        sync.Mutex
	restUntil time.Time // of the shards, from lists
}

// New makes a lister. The function destination names the destination of a callback.
func New(config *settings.Config, shards *shard.Registry, destination func(timer.Callback) string, actions Actions) *Lister {
	return &Lister{
		config: config, shards: shards, store: shards.Store, destination: destination, actions: actions,
		rounds: make(chan struct{}, maxRounds), long: make(chan struct{}, maxLong), pace: rate.NewLimiter(bulkRate, bulkBurst),
	}
}

// List returns a page of timers; the query must be valid. At rest a reader of all pages gets a timer that is there
// throughout exactly once; while timers are moved, the timer may come twice. Errors: store.ErrCursor; ErrStale;
// ErrBusy; *timer.InvalidError for a destination that is none; timer.ErrUnavailable if no shard answers.
func (l *Lister) List(ctx context.Context, q Query) (Page, error) {
	page, _, err := l.list(ctx, q, 0)
	return page, err
}

// list is List, for a change to many timers that begins now (begun), unless the query's cursor knows when the change
// began. The version returned is of that moment.
func (l *Lister) list(ctx context.Context, q Query, begun timer.Version) (Page, timer.Version, error) {
	if err := l.store.Writable(); err != nil { // this node may not know where timers are
		return Page{}, 0, err
	}
	if asked := q.Filter.Destination; asked != "" {
		name, err := l.config.Destinations.Parse(asked)
		if err != nil {
			return Page{}, 0, timer.Invalid("", "destination-malformed", "the destination %v", err)
		}
		q.Filter.Destination = name
	}
	if q.Filter.Key != "" {
		page, err := l.one(ctx, &q)
		return page, begun, err
	}
	after, view := store.Place{At: q.Filter.DueAfter}, l.store.View()
	if q.Cursor != "" {
		place, since, err := readCursor(q.Cursor, view, &q.Filter)
		if err != nil {
			return Page{}, 0, err
		}
		if after = place; since > 0 && begun > 0 {
			begun = since
		}
	}
	r := &reader{l: l, q: &q, walk: walk.Begin(l.config, l.shards, after, q.Filter.pick(), someAnswer)}
	if err := r.read(ctx); err != nil {
		return Page{}, 0, err
	}
	if l.store.View() != view {
		return Page{}, 0, ErrStale // timers may have moved past the reader meanwhile
	}
	page := Page{Timers: r.timers, Scanned: r.walk.Looked, Unreached: slices.Sorted(maps.Keys(r.walk.Away))}
	if next := r.walk.Next; next != nil && !r.over() {
		page.Next, page.Reached = cursorOf(q.Filter.veil(*next), view, &q.Filter, begun), next.At
	}
	return page, begun, nil
}

// inTurn asks the shards once it is the request's turn. ErrBusy says that the turn has not come.
func (l *Lister) inTurn(ctx context.Context, ask func() error) error {
	waiting, cancel := context.WithTimeout(ctx, turnPatience)
	defer cancel()
	select {
	case l.rounds <- struct{}{}:
		defer func() { <-l.rounds }()
		return ask()
	case <-waiting.Done():
		return ErrBusy
	}
}

// someAnswer goes on while any shard answers: the page says which shards don't.
func someAnswer(away, all int) error {
	if away >= all {
		return fmt.Errorf("%w: no shard answers", timer.ErrUnavailable)
	}
	return nil
}

// one is the page of a single key.
func (l *Lister) one(ctx context.Context, q *Query) (Page, error) {
	if q.Cursor != "" { // a key has no second page
		return Page{}, store.ErrCursor
	}
	w := walk.Begin(l.config, l.shards, store.Place{}, q.Filter.pick(), someAnswer)
	var page Page
	if timer.ValidKey(q.Filter.Key) && strings.HasPrefix(q.Filter.Key, q.Filter.KeyPrefix) {
		var found []walk.Copy
		err := l.inTurn(ctx, func() (err error) {
			found, err = w.Find(ctx, []string{q.Filter.Key}, func(h *store.Head) bool { return l.picks(&q.Filter, h) })
			return err
		})
		if err != nil {
			return Page{}, err
		}
		for i := range found {
			page.Timers = append(page.Timers, l.timerOf(&found[i].Head))
			page.Scanned++
		}
	}
	page.Unreached = slices.Sorted(maps.Keys(w.Away))
	return page, nil
}

// reader puts a page together.
type reader struct {
	l      *Lister
	q      *Query
	walk   *walk.Walk
	timers []Timer
}

func (r *reader) read(ctx context.Context) error {
	n := PerRound
	if r.q.Filter == (Filter{DueAfter: r.q.Filter.DueAfter, DueBefore: r.q.Filter.DueBefore}) {
		n = min(max(r.q.Limit/6, 8), PerRound) // nearly every copy is of a timer of the page
	}
	long := false
	defer func() {
		if long {
			<-r.l.long
		}
	}()
	deadline := time.Now().Add(patience)
	for again := r.q.Cursor != ""; ; again = true {
		if again && !r.l.rested(ctx, deadline, r.walk.Looked == 0) {
			return nil // the page is short
		}
		err := r.l.inTurn(ctx, func() error { return r.round(ctx, n) })
		switch {
		case errors.Is(err, ErrBusy) && long: // the page is short
			return nil
		case err != nil:
			return err
		}
		r.l.tire(r.walk.Took)
		if r.walk.Next == nil || r.over() || len(r.timers) >= r.q.Limit || r.walk.Looked >= MaxLooked {
			return nil
		}
		if !long {
			select {
			case r.l.long <- struct{}{}:
				long = true
			default:
				return nil // the page is short
			}
		}
	}
}

// tire notes that a list took so much of the shards' time.
func (l *Lister) tire(took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if until := time.Now().Add((share - 1) * took); until.After(l.restUntil) {
		l.restUntil = until
	}
}

// rested waits until the shards have had their rest. The result false says that the rest ends after the deadline,
// for which patient callers wait, or that ctx has ended.
func (l *Lister) rested(ctx context.Context, deadline time.Time, patient bool) bool {
	for {
		l.mu.Lock()
		until := l.restUntil
		l.mu.Unlock()
		late := until.After(deadline)
		switch {
		case late && !patient:
			return false
		case late:
			until = deadline
		case !time.Now().Before(until):
			return true
		}
		select {
		case <-time.After(time.Until(until)):
			if late {
				return false
			}
		case <-ctx.Done():
			return false
		}
	}
}

// round takes the timers up to a further place while the page has room.
func (r *reader) round(ctx context.Context, n int) error {
	room := r.q.Limit - len(r.timers)
	wanted := 0
	all, err := r.walk.Round(ctx, n, func(h *store.Head) bool { return r.l.picks(&r.q.Filter, h) }, func(*store.Head) bool {
		wanted++
		return wanted >= room
	})
	if err != nil {
		return err
	}
	for i := range all {
		r.walk.Take(&all[i])
		r.timers = append(r.timers, r.l.timerOf(&all[i].Head))
		if len(r.timers) == r.q.Limit {
			if i < len(all)-1 {
				r.walk.Next = &all[i].Place
			}
			return nil
		}
	}
	return nil
}

// over reports whether all timers have been looked at that are due before DueBefore.
func (r *reader) over() bool {
	before := r.q.Filter.DueBefore
	return !before.IsZero() && r.walk.Next != nil && r.walk.Next.At.After(before.Add(slack))
}

// pick is what a shard can tell apart.
func (f *Filter) pick() store.Pick {
	p := store.Pick{State: store.CopyState(f.State), KeyPrefix: f.KeyPrefix, Text: f.Text, Tag: f.Tag}
	if u, err := url.Parse(f.Destination); err == nil {
		p.Host = strings.ToLower(u.Hostname())
	}
	return p
}

// picks reports whether a live copy meets all conditions.
func (l *Lister) picks(f *Filter, h *store.Head) bool {
	if h.Brief == nil || !h.Brief.Picked || f.Key != "" && h.Key != f.Key {
		return false
	}
	due := dueOf(h)
	return !due.Before(f.DueAfter) && (f.DueBefore.IsZero() || due.Before(f.DueBefore)) &&
		(f.Destination == "" || l.destination(timer.Callback{URI: h.Brief.URI}) == f.Destination)
}

// dueOf is when a node next looks at the timer to call back: at the pop, or at the retry.
func dueOf(h *store.Head) time.Time {
	switch {
	case h.Leased() && h.State.Attempt > 0:
		return h.Taken
	case h.Leased():
		return h.Due
	case h.State.Attempt > 0 || h.Look.Before(h.Due):
		return h.Look
	}
	return h.Due
}

func (l *Lister) timerOf(h *store.Head) Timer {
	t := Timer{
		ID: timer.ID{Key: h.Key, RF: h.RF}, Version: timer.State{Version: h.State.Version, Rev: h.State.Rev}, State: Waiting, Due: dueOf(h),
		Sequence: h.State.Seq, Attempts: h.State.Attempt,
		Timer: timer.Timer{
			Interval: h.Brief.Interval, RepeatFor: h.Brief.RepeatFor, ReplicationFactor: h.RF, Tags: h.Brief.Tags, Callback: timer.Callback{URI: h.Brief.URI},
		},
	}
	switch {
	case h.Leased():
		t.State = Leased
	case h.State.Attempt > 0:
		t.State = Retrying
	}
	ranked := l.store.Rank(h.Key)
	for _, name := range ranked[:min(max(h.RF, 1), len(ranked))] {
		t.ID.Hint |= l.store.HintOf(name)
	}
	return t
}
