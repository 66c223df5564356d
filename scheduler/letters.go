package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// Letter is a dead letter: a timer that was given up after the last attempt at its
// only pop, or whose record can't be read.
type Letter struct {
	ID     string // opaque; the same for as long as it is kept, on whatever shard
	Shard  string
	At     time.Time    // when it was given up, by its shard's clock
	Key    string       // of the timer; "" if it can't be read
	Reason string       // why the last attempt failed
	Record store.Record // the timer as it was given up
	// Err says why it can't be read, and wraps ErrUnreadable; nil if it can.
	Err error
	// Text is what is stored. It may hold anything if the letter can't be read.
	Text string
}

// LetterFilter picks the dead letters to which all applies that it says. The zero
// value picks all.
type LetterFilter struct {
	Key       string // of the timer
	KeyPrefix string // the key begins with it
	Reason    string // is a part of the reason
	// Callback is a URL that the callback's begins with, or its host, with or without
	// the port. What a URL says of a user isn't looked at.
	Callback     string
	Since, Until time.Time // given up not before, and not after; zero for no bound
}

// IsZero reports whether it picks all.
func (f *LetterFilter) IsZero() bool { return *f == LetterFilter{} }

// Picks reports whether all applies to l.
func (f *LetterFilter) Picks(l *Letter) bool {
	return (f.Key == "" || f.Key == l.Key) && strings.HasPrefix(l.Key, f.KeyPrefix) && strings.Contains(l.Reason, f.Reason) &&
		(f.Since.IsZero() || !l.At.Before(f.Since)) && (f.Until.IsZero() || !l.At.After(f.Until)) &&
		(f.Callback == "" || l.Err == nil && f.calls(l.Record.Timer.Callback))
}

func (f *LetterFilter) calls(c timer.Callback) bool {
	if strings.Contains(f.Callback, "://") {
		shown := c.Redacted()
		return strings.HasPrefix(shown, f.Callback) || strings.HasPrefix(strings.Replace(shown, timer.RedactedUser+"@", "", 1), f.Callback)
	}
	u, err := url.Parse(c.URI)
	return err == nil && (strings.EqualFold(u.Host, f.Callback) || strings.EqualFold(u.Hostname(), f.Callback))
}

// LetterQuery asks for some of the dead letters.
type LetterQuery struct {
	Filter LetterFilter
	Cursor string // the Next of the page before; "" for the begin
	Limit  int    // of the page; at least 1
}

// LetterPage is a part of the dead letters, the newest first.
type LetterPage struct {
	// Letters may be fewer than the limit, and none, though there are more.
	Letters   []Letter
	Next      string   // cursor of what follows; "" at the end
	Total     int64    // that there are, whatever the filter
	Unreached []string // shards whose letters are missing in all this
}

// LetterStore keeps the dead letters. All methods are safe for concurrent use.
type LetterStore interface {
	// Letters lists them, the newest first. ErrCursor is its only error: of what it
	// could not reach it says so in the page.
	Letters(ctx context.Context, q LetterQuery) (LetterPage, error)
	// Letter is the one of an ID. Errors: ErrNotFound; ErrUnavailable, if it may be on
	// a shard that could not be asked, or of which this node does not know.
	Letter(ctx context.Context, id string) (Letter, error)
	// RemoveLetters removes letters, and returns an error for each that wraps
	// ErrUnavailable where it may be there still. One that was not there is removed.
	RemoveLetters(ctx context.Context, letters []Letter) []error
}

var (
	// ErrCursor says that a cursor is none that a page had as its Next.
	ErrCursor = errors.New("malformed cursor")

	// ErrUnreadable says that what a shard keeps of a timer can't be made out.
	ErrUnreadable = errors.New("unreadable")

	// ErrSuperseded says that a timer of the same key is there, or was until a moment
	// ago, which was set, replaced or deleted after the one that is meant. Nothing was
	// done.
	ErrSuperseded = errors.New("superseded by a later write")
)

// FireAgain has a dead letter's pop called back again, at once: as a timer of the
// same key, callback, replication factor and tags, with all attempts and sequence
// number 1. Its version is the next above that of the letter, whoever does this and
// however often: so it is one timer, with one webhook-id, and older than
// whatever a client has made of the key since. Errors: ErrUnreadable, ErrSuperseded,
// *InvalidError if such a timer is refused now, and those of Create.
func (s *Scheduler) FireAgain(ctx context.Context, l *Letter) (Receipt, error) {
	if l.Err != nil {
		return Receipt{}, l.Err
	}
	r := &l.Record
	version := r.State.Version + 1<<timer.VersionTagBits
	if version < r.State.Version {
		return Receipt{}, fmt.Errorf("%w: there is no version above its own", ErrUnreadable)
	}
	t := timer.Timer{ReplicationFactor: r.ID.RF, Callback: r.Timer.Callback, Tags: r.Timer.Tags}
	if err := cmp.Or(t.CheckReplication(), t.CheckTags()); err != nil {
		return Receipt{}, err
	}
	if err := s.deliverer.Check(t.Callback); err != nil { // it needn't be of HTTP
		return Receipt{}, err
	}
	return s.write(ctx, wish{id: timer.ID{Key: r.ID.Key, RF: t.ReplicationFactor}, version: version, timer: &t, begun: s.config.SinceBoot(), humble: true})
}

// Letters lets an operator look at the dead letters, fire them again and delete
// them. Make it with NewLetters; its methods are safe for concurrent use.
type Letters struct {
	store LetterStore
	fire  func(context.Context, *Letter) (Receipt, error)
	pace  *rate.Limiter
	log   *slog.Logger
}

const (
	// againRate is how many letters a second a node fires again: the receivers have
	// just come back.
	againRate = 500
	// againPage is how many one call takes, and againWorkers how many at once.
	againPage    = 100
	againWorkers = 16
	// deletePage is how many letters one call deletes.
	deletePage = 1000
)

// NewLetters makes one that fires by s.
func NewLetters(s *Scheduler, backend LetterStore) *Letters {
	return &Letters{store: backend, fire: s.FireAgain, pace: rate.NewLimiter(againRate, againPage), log: s.log}
}

// List is LetterStore's Letters.
func (d *Letters) List(ctx context.Context, q LetterQuery) (LetterPage, error) {
	return d.store.Letters(ctx, q)
}

// Letter is LetterStore's.
func (d *Letters) Letter(ctx context.Context, id string) (Letter, error) {
	return d.store.Letter(ctx, id)
}

// LettersDone is what came of letters that were fired again or deleted.
type LettersDone struct {
	Done    int
	Refused []RefusedLetter // what is left as it was, or can't be removed
	Next    string          // cursor for the next call; "" if all have had their turn
	Left    int64           // letters that there are still, whatever the query
	// Unreached are shards whose letters had no turn, and aren't counted.
	Unreached []string
}

// RefusedLetter is one with which it can't be done.
type RefusedLetter struct {
	ID, Key string
	Err     error
}

// Fire fires one letter again, and removes it once that is acknowledged. Errors are
// those of FireAgain, ErrNotFound, and ErrUnavailable, with which it may have been
// fired and not removed: the same once more makes no second timer, unless that was
// over by then.
func (d *Letters) Fire(ctx context.Context, id string) (Receipt, error) {
	l, err := d.store.Letter(ctx, id)
	if err != nil {
		return Receipt{}, err
	}
	receipt, err := d.fireOne(ctx, &l)
	if err == nil {
		d.log.Info("a dead letter is fired again", "letter", l.ID, "timer", receipt.ID.String())
	}
	return receipt, err
}

func (d *Letters) fireOne(ctx context.Context, l *Letter) (Receipt, error) {
	if err := d.pace.Wait(ctx); err != nil {
		return Receipt{}, fmt.Errorf("%w: %w", timer.ErrUnavailable, err)
	}
	receipt, err := d.fire(ctx, l)
	if err != nil {
		return Receipt{}, err
	}
	if err := d.store.RemoveLetters(ctx, []Letter{*l})[0]; err != nil {
		return Receipt{}, fmt.Errorf("remove the letter, which was fired again: %w", err)
	}
	return receipt, nil
}

// FireAll fires again up to 100 of the letters that q asks for, no more than 500 a
// second. ErrCursor is its only error.
func (d *Letters) FireAll(ctx context.Context, q LetterQuery) (LettersDone, error) {
	q.Limit = againPage
	page, err := d.store.Letters(ctx, q)
	if err != nil {
		return LettersDone{}, err
	}
	errs := make([]error, len(page.Letters))
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(againWorkers, len(errs)) {
		workers.Go(func() {
			for i := range next {
				_, errs[i] = d.fireOne(ctx, &page.Letters[i])
			}
		})
	}
	for i := range errs {
		next <- i
	}
	close(next)
	workers.Wait()
	return d.done("dead letters are fired again", &page, errs), nil
}

// Delete deletes one letter. Errors: ErrNotFound, ErrUnavailable.
func (d *Letters) Delete(ctx context.Context, id string) error {
	l, err := d.store.Letter(ctx, id)
	if err != nil {
		return err
	}
	if err := d.store.RemoveLetters(ctx, []Letter{l})[0]; err != nil {
		return err
	}
	d.log.Info("a dead letter is deleted", "letter", l.ID, "timer", l.Key)
	return nil
}

// DeleteAll deletes up to 1,000 of the letters that q asks for. ErrCursor is its
// only error.
func (d *Letters) DeleteAll(ctx context.Context, q LetterQuery) (LettersDone, error) {
	q.Limit = deletePage
	page, err := d.store.Letters(ctx, q)
	if err != nil {
		return LettersDone{}, err
	}
	return d.done("dead letters are deleted", &page, d.store.RemoveLetters(ctx, page.Letters)), nil
}

func (d *Letters) done(message string, page *LetterPage, errs []error) LettersDone {
	all := LettersDone{Next: page.Next, Unreached: page.Unreached}
	for i, err := range errs {
		if err == nil {
			all.Done++
			continue
		}
		all.Refused = append(all.Refused, RefusedLetter{ID: page.Letters[i].ID, Key: page.Letters[i].Key, Err: err})
	}
	all.Left = max(page.Total-int64(all.Done), 0)
	if len(errs) > 0 {
		d.log.Info(message, "count", all.Done, "refused", len(all.Refused))
	}
	return all
}
