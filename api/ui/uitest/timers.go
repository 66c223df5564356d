package uitest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"chronos/scheduler/listing"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// errBadCursor says that a cursor is none of this backend.
var errBadCursor = store.ErrCursor

// Timer is a timer of a Backend.
type Timer struct {
	Key     string
	Due     time.Time
	Retry   time.Time // when a retry is due; zero for none
	State   timer.State
	Leased  bool
	Failure store.Failure
	Timer   timer.Timer
}

// ID is the timer's id.
func (t *Timer) ID() timer.ID {
	return timer.ID{Key: t.Key, RF: t.Timer.ReplicationFactor, Hint: 0x40100402}
}

// Put adds a timer. Missing parts are filled in.
func (b *Backend) Put(t Timer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t.State.Seq = max(t.State.Seq, 1)
	t.State.Version = cmp.Or(t.State.Version, timer.VersionAt(b.began.Add(-time.Hour), uint16(len(b.timers))))
	t.Timer.ReplicationFactor = cmp.Or(t.Timer.ReplicationFactor, 2)
	b.timers = append(b.timers, &t)
	slices.SortStableFunc(b.timers, func(x, y *Timer) int { return cmp.Or(x.at().Compare(y.at()), cmpText(x.Key, y.Key)) })
}

func cmpText(a, b string) int { return strings.Compare(a, b) }

// at is the timer's place in the list.
func (t *Timer) at() time.Time {
	if !t.Retry.IsZero() {
		return t.Retry
	}
	return t.Due
}

func (t *Timer) state() listing.State {
	switch {
	case t.Leased:
		return listing.Leased
	case t.State.Attempt > 0:
		return listing.Retrying
	}
	return listing.Waiting
}

func (t *Timer) matches(f *listing.Filter) bool {
	uri := t.Timer.Callback.URI
	return (f.Key == "" || f.Key == t.Key) && strings.HasPrefix(t.Key, f.KeyPrefix) &&
		(f.Text == "" || strings.Contains(t.Key, f.Text) || strings.Contains(uri, f.Text)) &&
		(f.State == "" || f.State == t.state()) && (f.Destination == "" || f.Destination == destinationOf(uri)) &&
		(f.Tag == "" || slices.ContainsFunc(t.Timer.Tags, func(tag timer.Tag) bool { return tag.Type == f.Tag })) &&
		(f.DueAfter.IsZero() || !t.at().Before(f.DueAfter)) && (f.DueBefore.IsZero() || t.at().Before(f.DueBefore))
}

func destinationOf(uri string) string {
	u, err := url.Parse(uri)
	if err != nil {
		return ""
	}
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	return u.Scheme + "://" + u.Hostname() + ":" + port
}

// mostScanned is how many timers a call looks at.
const mostScanned = 2000

// find calls with the timers behind the cursor that match, at most limit of them.
func (b *Backend) find(q *listing.Query, with func(*Timer)) (next string, scanned int, reached time.Time, err error) {
	begin := 0
	if q.Cursor != "" {
		if begin, err = strconv.Atoi(strings.TrimPrefix(q.Cursor, "c")); err != nil || begin < 0 {
			return "", 0, reached, errBadCursor
		}
	}
	found := 0
	for i, t := range b.timers[min(begin, len(b.timers)):] {
		if found == q.Limit || scanned == mostScanned {
			return fmt.Sprint("c", begin+i), scanned, reached, nil
		}
		scanned++
		reached = t.at()
		if t.matches(&q.Filter) {
			found++
			with(t)
		}
	}
	return "", scanned, time.Time{}, nil
}

// List implements ui.Lister.
func (b *Backend) List(ctx context.Context, q listing.Query) (p listing.Page, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.failed(ctx); err != nil {
		return p, err
	}
	p.Unreached = slices.Clone(b.Away)
	p.Next, p.Scanned, p.Reached, err = b.find(&q, func(t *Timer) {
		shown := t.Timer
		shown.Callback = timer.Callback{URI: t.Timer.Callback.URI}
		p.Timers = append(p.Timers, listing.Timer{ID: t.ID(), Version: t.State, State: t.state(), Due: t.at(), Sequence: t.State.Seq, Attempts: t.State.Attempt, Timer: shown})
	})
	return p, err
}

// Bulk implements ui.Lister. The cursor of a change is that of the timers that are left.
func (b *Backend) Bulk(ctx context.Context, ask listing.Bulk) (done listing.Done, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.failed(ctx); err != nil {
		return done, err
	}
	done.Unreached = slices.Clone(b.Away)
	var chosen []*Timer
	done.Next, done.Scanned, done.Reached, err = b.find(&ask.Query, func(t *Timer) { chosen = append(chosen, t) })
	if err != nil || ask.DryRun {
		done.Done = len(chosen)
		return done, err
	}
	for _, t := range chosen {
		if t.Leased {
			done.Refused = append(done.Refused, listing.Refused{ID: t.ID().String(), Err: timer.ErrOvertaken})
			continue
		}
		b.apply(t, ask.Action, ask.By)
		done.Done++
	}
	if done.Next != "" && ask.Action == listing.Delete { // the timers behind have moved up
		next, err := strconv.Atoi(strings.TrimPrefix(done.Next, "c"))
		if err != nil {
			return done, errBadCursor
		}
		done.Next = fmt.Sprint("c", next-done.Done)
	}
	b.note("bulk %s %d", ask.Action, done.Done)
	return done, nil
}

func (b *Backend) apply(t *Timer, action listing.Action, by time.Duration) {
	switch action {
	case listing.Delete:
		b.timers = slices.DeleteFunc(b.timers, func(one *Timer) bool { return one == t })
	case listing.Fire:
		t.Due, t.Retry = time.Now(), time.Time{}
	case listing.Delay:
		t.Due = t.Due.Add(by)
	}
}

func (b *Backend) named(id timer.ID) *Timer {
	for _, t := range b.timers {
		if t.Key == id.Key {
			return t
		}
	}
	return nil
}

// Lookup implements ui.Timers.
func (b *Backend) Lookup(ctx context.Context, id timer.ID) (store.ReadResult, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.failed(ctx); err != nil {
		return store.ReadResult{}, err
	}
	t := b.named(id)
	if t == nil {
		if len(b.Away) > 0 {
			return store.ReadResult{}, timer.ErrUnavailable
		}
		return store.ReadResult{}, timer.ErrNotFound
	}
	now := time.Now()
	return store.ReadResult{
		Record: store.Record{ID: t.ID(), State: t.State, Timer: t.Timer, Failure: t.Failure},
		Look:   t.at(), LookIn: t.at().Sub(now), Due: t.at(), DueIn: t.Due.Sub(now), Leased: t.Leased,
	}, nil
}

// Copies implements ui.Timers.
func (b *Backend) Copies(ctx context.Context, id timer.ID) (copies []listing.Copy, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.failed(ctx); err != nil {
		return nil, err
	}
	t := b.named(id)
	for rank, shard := range []string{"a", "b", "c"} {
		c := listing.Copy{Shard: shard, Rank: rank, Owner: rank < 2, State: listing.CopyMissing}
		switch {
		case b.away(shard):
			c.State = listing.CopyUnreached
		case t != nil && c.Owner:
			c.State, c.Version, c.Due, c.Look = listing.CopyState(t.state()), t.State, t.Due, t.at().Add(time.Duration(rank)*1500*time.Millisecond)
			if t.Leased && rank == 0 {
				c.Lease = "node-1"
			}
		case !c.Owner:
			continue
		}
		copies = append(copies, c)
	}
	return copies, nil
}

func (b *Backend) change(ctx context.Context, id timer.ID, cond timer.Condition, action listing.Action, by time.Duration) (timer.Receipt, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.failed(ctx); err != nil {
		return timer.Receipt{}, err
	}
	t := b.named(id)
	if t == nil {
		return timer.Receipt{}, timer.ErrNotFound
	}
	if !cond.Met(t.State.Written()) {
		return timer.Receipt{}, &timer.ConditionError{Present: t.State.Written()}
	}
	if action == listing.Delay && by < 0 {
		return timer.Receipt{}, errors.New("a delay is not negative")
	}
	b.apply(t, action, by)
	b.note("%s %s", action, t.Key)
	return timer.Receipt{ID: t.ID(), Version: t.State.Version, Due: t.Due, Copies: 2 - len(b.Away), Unreached: len(b.Away), InFlight: t.Leased}, nil
}

// DeleteIf implements ui.Timers.
func (b *Backend) DeleteIf(ctx context.Context, id timer.ID, cond timer.Condition) (timer.Receipt, error) {
	return b.change(ctx, id, cond, listing.Delete, 0)
}

// Fire implements ui.Timers.
func (b *Backend) Fire(ctx context.Context, id timer.ID, cond timer.Condition) (timer.Receipt, error) {
	return b.change(ctx, id, cond, listing.Fire, 0)
}

// Delay implements ui.Timers.
func (b *Backend) Delay(ctx context.Context, id timer.ID, cond timer.Condition, by time.Duration) (timer.Receipt, error) {
	return b.change(ctx, id, cond, listing.Delay, by)
}
