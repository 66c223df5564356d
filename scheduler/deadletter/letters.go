package deadletter

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"

	"golang.org/x/time/rate"

	"chronos/scheduler/kept"
	"chronos/scheduler/replica"
	"chronos/scheduler/settings"
	"chronos/scheduler/site"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// Letters lets an operator list dead letters, fire letters again and delete letters. All methods
// are safe for concurrent use.
type Letters struct {
	config *settings.Config
	store  store.LetterStore
	sites  *site.Sites
	check  func(timer.Callback) error
	// destination names the destination of a callback.
	destination func(timer.Callback) string

	groups *kept.Answer[grouped]
	pace   *rate.Limiter
	log    *slog.Logger
}

const (
	// againRate is how many letters a second a node fires again: the receivers have just come
	// back.
	againRate = 500
	// againPage is how many letters one call fires again, and againWorkers how many at the same
	// time.
	againPage    = 100
	againWorkers = 16
	// deletePage is how many letters one call deletes.
	deletePage = 1000
)

// New makes Letters; check refuses callbacks that would never be delivered, and destination names the
// destination of a callback.
func New(config *settings.Config, sites *site.Sites, backend store.LetterStore, check func(timer.Callback) error, destination func(timer.Callback) string) *Letters {
	return &Letters{
		config: config, store: backend, sites: sites, check: check, destination: destination,
		groups: kept.New[grouped](groupsLife), pace: rate.NewLimiter(againRate, againPage), log: config.Log,
	}
}

// FireAgain has a dead letter's pop called back again, at once: as a timer of the same key,
// callback, replication factor and tags, with all attempts and sequence number 1. The timer's
// version is always the next above the letter's version. Repeated calls, by any node, thus make
// one timer, with one webhook-id. Every write of a client to the key since the letter is newer.
// Errors: ErrUnreadable, ErrSuperseded, *InvalidError if such a timer is refused now, and the
// errors of Create.
func (d *Letters) FireAgain(ctx context.Context, l *store.Letter) (timer.Receipt, error) {
	if l.Err != nil {
		return timer.Receipt{}, l.Err
	}
	r := &l.Record
	version := r.State.Version + 1<<timer.VersionTagBits
	if version < r.State.Version {
		return timer.Receipt{}, fmt.Errorf("%w: there is no version above its own", store.ErrUnreadable)
	}
	t := timer.Timer{ReplicationFactor: r.ID.RF, Callback: r.Timer.Callback, Tags: r.Timer.Tags}
	if err := cmp.Or(t.CheckReplication(), t.CheckTags()); err != nil {
		return timer.Receipt{}, err
	}
	if err := d.check(t.Callback); err != nil { // the callback needn't be of HTTP
		return timer.Receipt{}, err
	}
	return d.sites.Write(ctx, replica.Wish{ID: timer.ID{Key: r.ID.Key, RF: t.ReplicationFactor}, Version: version, Timer: &t, Begun: d.config.SinceBoot(), Humble: true})
}

// List is LetterStore.Letters.
func (d *Letters) List(ctx context.Context, q store.LetterQuery) (store.LetterPage, error) {
	return d.store.Letters(ctx, q)
}

// Letter is LetterStore.Letter.
func (d *Letters) Letter(ctx context.Context, id string) (store.Letter, error) {
	return d.store.Letter(ctx, id)
}

// Done is the result of firing letters again, or of deleting letters.
type Done struct {
	Done    int
	Refused []Refused // letters that are left as before, or can't be removed
	Next    string    // cursor for the next call; "" if all letters have had a turn
	Left    int64     // letters that remain, whatever the query
	// Unreached are shards whose letters had no turn, and aren't counted.
	Unreached []string
}

// Refused is a letter for which the call failed.
type Refused struct {
	ID, Key string
	Err     error
}

// Fire fires one letter again, and removes the letter once the timer is acknowledged. Errors: the
// errors of FireAgain, ErrNotFound, and ErrUnavailable. After ErrUnavailable the letter may have
// been fired and not removed: a second call makes no second timer, unless the first timer is over
// by then.
func (d *Letters) Fire(ctx context.Context, id string) (timer.Receipt, error) {
	l, err := d.store.Letter(ctx, id)
	if err != nil {
		return timer.Receipt{}, err
	}
	receipt, err := d.fireOne(ctx, &l)
	if err == nil {
		d.log.Info("a dead letter is fired again", "letter", l.ID, "timer", receipt.ID.String())
	}
	return receipt, err
}

func (d *Letters) fireOne(ctx context.Context, l *store.Letter) (timer.Receipt, error) {
	if err := d.pace.Wait(ctx); err != nil {
		return timer.Receipt{}, fmt.Errorf("%w: %w", timer.ErrUnavailable, err)
	}
	receipt, err := d.FireAgain(ctx, l)
	if err != nil {
		return timer.Receipt{}, err
	}
	if err := d.store.RemoveLetters(ctx, []store.Letter{*l})[0]; err != nil {
		return timer.Receipt{}, fmt.Errorf("remove the letter, which was fired again: %w", err)
	}
	return receipt, nil
}

// FireAll fires again up to 100 of the letters that q asks for, and up to q.Limit, at most 500 a second. The only
// error is ErrCursor.
func (d *Letters) FireAll(ctx context.Context, q store.LetterQuery) (Done, error) {
	q.Limit = min(q.Limit, againPage)
	page, err := d.store.Letters(ctx, q)
	if err != nil {
		return Done{}, err
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
	if err := d.store.RemoveLetters(ctx, []store.Letter{l})[0]; err != nil {
		return err
	}
	d.log.Info("a dead letter is deleted", "letter", l.ID, "timer", l.Key)
	return nil
}

// DeleteAll deletes up to 1,000 of the letters that q asks for, and up to q.Limit. The only error is ErrCursor.
func (d *Letters) DeleteAll(ctx context.Context, q store.LetterQuery) (Done, error) {
	q.Limit = min(q.Limit, deletePage)
	page, err := d.store.Letters(ctx, q)
	if err != nil {
		return Done{}, err
	}
	return d.done("dead letters are deleted", &page, d.store.RemoveLetters(ctx, page.Letters)), nil
}

func (d *Letters) done(message string, page *store.LetterPage, errs []error) Done {
	all := Done{Next: page.Next, Unreached: page.Unreached}
	for i, err := range errs {
		if err == nil {
			all.Done++
			continue
		}
		all.Refused = append(all.Refused, Refused{ID: page.Letters[i].ID, Key: page.Letters[i].Key, Err: err})
	}
	all.Left = max(page.Total-int64(all.Done), 0)
	if len(errs) > 0 {
		d.log.Info(message, "count", all.Done, "refused", len(all.Refused))
	}
	return all
}
