package deliveries

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"chronos/scheduler/settings"
	"chronos/scheduler/shard"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// MaxLooked is how many entries of the log a request looks at, at most and about.
const MaxLooked = 20000

const (
	// A request about one timer looks at fewer entries, since many clients may ask. The last attempt is
	// looked for among the newest entries alone.
	timerLooked = 3000
	lastLooked  = 1000
	// perCall is how many entries of one timer's partition are looked at together. perRound is how many
	// entries of each partition of each shard are.
	perCall  = 300
	perRound = 64
	// Further rounds begin within the patience. The last attempt is a small part of an answer.
	patience      = 2 * time.Second
	timerPatience = 500 * time.Millisecond
	lastPatience  = 200 * time.Millisecond
	// Requests a second about one timer: each request costs a shard up to 4 ms.
	timerRate, timerBurst = 20, 20
	lastRate, lastBurst   = 50, 50
)

var (
	// ErrOff says that this node writes no log of deliveries, and reads none.
	ErrOff = errors.New("no log of deliveries")
	// ErrStale says that all entries behind a cursor are gone.
	ErrStale = errors.New("stale cursor")
)

// Log reads the log of deliveries. A nil *Log is a log that is off. All methods are safe for concurrent
// use.
type Log struct {
	config *settings.Config
	shards *shard.Registry
	store  store.LogStore

	timers *rate.Limiter // of requests about one timer
	last   *rate.Limiter
}

// New makes a Log.
func New(config *settings.Config, shards *shard.Registry, backend store.LogStore) *Log {
	return &Log{
		config: config, shards: shards, store: backend,
		timers: rate.NewLimiter(timerRate, timerBurst), last: rate.NewLimiter(lastRate, lastBurst),
	}
}

// Query asks for attempts that meet all conditions.
type Query struct {
	Destination string    // the destination, or a part: scheme://host, host:port or host; "" for all
	Result      string    // ok, failed, or the beginning of the result; "" for all
	Since       time.Time // the earliest time of the entry; zero for all
	Cursor      string    // the Next of the page before; "" for the beginning
	Limit       int       // of attempts in the page; at least 1
}

// Page is a part of the log, the newest attempt first.
type Page struct {
	Attempts  []Attempt // may be fewer than the limit, or none, though more follow
	Next      string    // the cursor of the next page; "" at the end
	Unreached []string  // shards that gave no answer: their attempts are missing
	// Unreadable counts the entries of the log that are no attempts, among the entries looked at.
	Unreadable int
}

// Attempt is an attempt of the log.
type Attempt struct {
	store.Attempt

	At    time.Time // when the outcome was settled, by the clock of the shard
	Shard string
}

// picks reports whether an attempt meets the conditions, Since aside.
func (q *Query) picks(a *store.Attempt) bool {
	switch q.Result {
	case "":
	case "ok":
		if !a.OK {
			return false
		}
	case "failed":
		if a.OK {
			return false
		}
	default:
		if !strings.HasPrefix(a.Result, q.Result) {
			return false
		}
	}
	return q.Destination == "" || isPart(strings.ToLower(q.Destination), a.Destination)
}

// isPart reports whether part is a destination, or the destination without scheme or port.
func isPart(part, destination string) bool {
	if !strings.Contains(part, "://") {
		_, destination, _ = strings.Cut(destination, "://")
	}
	rest, ok := strings.CutPrefix(destination, part)
	port, cut := strings.CutPrefix(rest, ":")
	return ok && (rest == "" || cut && !strings.ContainsAny(port, ":]"))
}

// All lists the attempts of all timers. Errors: ErrOff; store.ErrCursor; ErrStale.
func (l *Log) All(ctx context.Context, q Query) (Page, error) {
	if l == nil {
		return Page{}, ErrOff
	}
	r := reading{log: l, query: q, look: perRound, most: MaxLooked, patience: patience}
	for _, sh := range l.shards.Gather() {
		r.add(sh)
	}
	return r.run(ctx)
}

// Of lists the attempts at the pops of a timer that is live or has ended. Errors: ErrOff; store.ErrCursor;
// ErrStale; timer.ErrOverloaded for more than 20 requests a second.
func (l *Log) Of(ctx context.Context, id timer.ID, q Query) (Page, error) {
	switch {
	case l == nil:
		return Page{}, ErrOff
	case !l.timers.Allow():
		return Page{}, fmt.Errorf("read deliveries: %w", timer.ErrOverloaded)
	}
	return l.ofTimer(id, reading{query: q, most: timerLooked, patience: timerPatience}).run(ctx)
}

// Last is the last attempt at a pop of a timer, if the attempt is among the newest entries of the log.
// Last looks for at most 50 attempts a second, and takes at most 0.2 s.
func (l *Log) Last(ctx context.Context, id timer.ID) (Attempt, bool) {
	if l == nil || !l.last.Allow() {
		return Attempt{}, false
	}
	ctx, cancel := l.config.Awake.WithTimeout(ctx, lastPatience)
	defer cancel()
	page, err := l.ofTimer(id, reading{query: Query{Limit: 1}, most: lastLooked, patience: lastPatience}).run(ctx)
	if err != nil || len(page.Attempts) == 0 {
		return Attempt{}, false
	}
	return page.Attempts[0], true
}

// ofTimer has the reading ask the shards on which copies of a timer are, were, or will be.
func (l *Log) ofTimer(id timer.ID, r reading) *reading {
	r.log, r.key, r.look = l, id.Key, perCall
	for _, p := range l.shards.Places(id) {
		if !p.Vanished() {
			r.add(p.Shard)
		}
	}
	return &r
}

// reading is a request that reads the log of some shards from the newest entry to the oldest.
type reading struct {
	log      *Log
	query    Query
	key      string // of the timer; "" for all timers
	look     int    // at so many entries of a partition together
	most     int    // entries that are looked at
	patience time.Duration

	shards []string // that answer
	looked int
	page   Page
}

// add has the reading ask a shard, unless the shard is away.
func (r *reading) add(sh *shard.Shard) {
	if sh.Away() {
		r.page.Unreached = append(r.page.Unreached, sh.Name)
		return
	}
	r.shards = append(r.shards, sh.Name)
}

func (r *reading) run(ctx context.Context) (Page, error) {
	var at *store.LogPlace
	if r.query.Cursor != "" {
		place, err := parseCursor(r.query.Cursor, r.mark())
		if err != nil {
			return Page{}, err
		}
		at = &place
	}
	for begun := time.Now(); ; {
		round := r.round(ctx, at)
		full := false
		for i := range round.Entries {
			if full = len(r.page.Attempts) == r.query.Limit; full {
				break
			}
			at = &round.Entries[i].Place
			r.take(&round.Entries[i])
		}
		r.looked += round.Looked
		if !full && round.Until != nil {
			at = round.Until
		}
		more := full || round.Until != nil
		full = full || len(r.page.Attempts) == r.query.Limit
		if more && (full || r.looked >= r.most || time.Since(begun) >= r.patience || ctx.Err() != nil) {
			r.page.Next = cursor(at, r.mark())
		}
		if !more || r.page.Next != "" {
			break
		}
	}
	slices.Sort(r.page.Unreached)
	if r.query.Cursor != "" && r.query.Since.IsZero() && r.looked == 0 && len(r.page.Unreached) == 0 {
		return Page{}, ErrStale
	}
	return r.page, nil
}

// take adds the entry to the page, if the query asks for the entry.
func (r *reading) take(e *store.LogEntry) {
	switch {
	case e.Err != nil:
		r.page.Unreadable++
	case r.query.picks(&e.Attempt):
		r.page.Attempts = append(r.page.Attempts, Attempt{
			Attempt: e.Attempt, Shard: e.Place.Shard, At: time.UnixMilli(int64(min(e.Place.Ms, lastInstant))).UTC(),
		})
	}
}

// lastInstant is the last instant with a year of four digits, in ms since 1970: somebody else may have
// written the entry.
const lastInstant = 253402300799999

// round reads the next entries of all shards. A shard that doesn't answer is not asked again.
func (r *reading) round(ctx context.Context, after *store.LogPlace) store.LogPage {
	pages, errs := make([]store.LogPage, len(r.shards)), make([]error, len(r.shards))
	q := store.LogQuery{Key: r.key, After: after, Since: r.query.Since, Look: r.look}
	var asked sync.WaitGroup
	for i, name := range r.shards {
		asked.Go(func() { pages[i], errs[i] = r.log.store.Log(ctx, name, q) })
	}
	asked.Wait()
	answered := r.shards[:0:0]
	for i, name := range r.shards {
		if errs[i] != nil {
			r.page.Unreached = append(r.page.Unreached, name)
			continue
		}
		answered = append(answered, name)
	}
	r.shards = answered
	merged := store.MergeLog(pages)
	if r.key == "" {
		merged.Looked = len(merged.Entries) // the rest is looked at once more
	}
	return merged
}

// mark tells apart the queries whose cursors must not be mixed up.
func (r *reading) mark() string { return r.key + "\n" + r.query.Destination + "\n" + r.query.Result }
