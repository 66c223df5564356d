package uitest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"chronos/scheduler/deadletter"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// Letters are the dead letters of a Backend.
type Letters struct {
	backend *Backend
	letters []store.Letter // the newest first
}

// Bury adds a dead letter of a timer.
func (l *Letters) Bury(at time.Time, reason string, t Timer) {
	l.backend.mu.Lock()
	defer l.backend.mu.Unlock()
	t.State.Seq = max(t.State.Seq, 1)
	one := store.Letter{
		ID: fmt.Sprintf("a.%04d", len(l.letters)), Shard: "a", At: at, Key: t.Key, Reason: reason,
		Record: store.Record{ID: timer.ID{Key: t.Key, RF: 2}, State: t.State, Timer: t.Timer},
	}
	l.letters = slices.Insert(l.letters, 0, one)
}

// BuryUnreadable adds a dead letter that can't be read.
func (l *Letters) BuryUnreadable(at time.Time, text string) {
	l.backend.mu.Lock()
	defer l.backend.mu.Unlock()
	l.letters = append(l.letters, store.Letter{ID: fmt.Sprintf("a.%04d", len(l.letters)), Shard: "a", At: at, Err: fmt.Errorf("%w: the record ends early", store.ErrUnreadable), Text: text})
}

// List implements ui.Letters.
func (l *Letters) List(_ context.Context, q store.LetterQuery) (p store.LetterPage, err error) {
	l.backend.mu.Lock()
	defer l.backend.mu.Unlock()
	begin := 0
	if q.Cursor != "" {
		if begin, err = strconv.Atoi(q.Cursor); err != nil || begin < 0 {
			return p, store.ErrCursor
		}
	}
	p.Total, p.Unreached = int64(len(l.letters)), slices.Clone(l.backend.Away)
	for i := begin; i < len(l.letters); i++ {
		if len(p.Letters) == q.Limit {
			p.Next = strconv.Itoa(i)
			break
		}
		if q.Filter.Picks(&l.letters[i]) {
			p.Letters = append(p.Letters, l.letters[i])
		}
	}
	return p, nil
}

// Letter implements ui.Letters.
func (l *Letters) Letter(_ context.Context, id string) (store.Letter, error) {
	l.backend.mu.Lock()
	defer l.backend.mu.Unlock()
	for _, one := range l.letters {
		if one.ID == id {
			return one, nil
		}
	}
	return store.Letter{}, timer.ErrNotFound
}

// Groups implements ui.Letters.
func (l *Letters) Groups(context.Context) (g deadletter.Groups, _ error) {
	l.backend.mu.Lock()
	defer l.backend.mu.Unlock()
	g.LookedAt, g.Complete, g.Unreached = len(l.letters), len(l.backend.Away) == 0, slices.Clone(l.backend.Away)
	for _, one := range l.letters {
		destination := ""
		if one.Err == nil {
			destination = destinationOf(one.Record.Timer.Callback.URI)
		}
		i := slices.IndexFunc(g.Groups, func(known deadletter.Group) bool {
			return known.Destination == destination && known.Reason == one.Reason
		})
		if i < 0 {
			i = len(g.Groups)
			g.Groups = append(g.Groups, deadletter.Group{Destination: destination, Reason: one.Reason, Newest: one.At})
		}
		g.Groups[i].Count++
		g.Groups[i].Oldest = one.At
	}
	slices.SortStableFunc(g.Groups, func(x, y deadletter.Group) int { return y.Count - x.Count })
	return g, nil
}

// Fire implements ui.Letters.
func (l *Letters) Fire(ctx context.Context, id string) (timer.Receipt, error) {
	one, err := l.Letter(ctx, id)
	if err != nil {
		return timer.Receipt{}, err
	}
	if one.Err != nil {
		return timer.Receipt{}, one.Err
	}
	l.remove("fire", id)
	l.backend.Put(Timer{Key: one.Key, Due: time.Now(), Timer: one.Record.Timer})
	return timer.Receipt{ID: timer.ID{Key: one.Key, RF: 2}}, nil
}

func (l *Letters) remove(what, id string) {
	l.backend.mu.Lock()
	defer l.backend.mu.Unlock()
	l.letters = slices.DeleteFunc(l.letters, func(one store.Letter) bool { return one.ID == id })
	l.backend.note("%s letter %s", what, id)
}

// Delete implements ui.Letters.
func (l *Letters) Delete(ctx context.Context, id string) error {
	if _, err := l.Letter(ctx, id); err != nil {
		return err
	}
	l.remove("delete", id)
	return nil
}

// FireAll implements ui.Letters.
func (l *Letters) FireAll(ctx context.Context, q store.LetterQuery) (deadletter.Done, error) {
	return l.all(ctx, q, func(id string) error { _, err := l.Fire(ctx, id); return err })
}

// DeleteAll implements ui.Letters.
func (l *Letters) DeleteAll(ctx context.Context, q store.LetterQuery) (deadletter.Done, error) {
	return l.all(ctx, q, func(id string) error { return l.Delete(ctx, id) })
}

func (l *Letters) all(ctx context.Context, q store.LetterQuery, do func(id string) error) (done deadletter.Done, err error) {
	const page = 100
	q.Limit = page
	p, err := l.List(ctx, q)
	if err != nil {
		return done, err
	}
	for _, one := range p.Letters {
		if err := do(one.ID); err != nil {
			done.Refused = append(done.Refused, deadletter.Refused{ID: one.ID, Key: one.Key, Err: err})
			continue
		}
		done.Done++
	}
	if p.Next != "" {
		done.Next = strconv.Itoa(len(done.Refused))
	}
	done.Left, done.Unreached = p.Total-int64(done.Done), p.Unreached
	return done, nil
}
