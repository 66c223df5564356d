package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"chronos/scheduler/listing"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// actions are an engine's, and fail as the test says.
type actions struct {
	listing.Actions

	mu     sync.Mutex
	asked  []string
	before func(id timer.ID) error
}

func (a *actions) note(what string, id timer.ID, cond timer.Condition) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, fmt.Sprint(what, " ", id.Key, " ", len(cond.OneOf)))
	if a.before != nil {
		return a.before(id)
	}
	return nil
}

func (a *actions) DeleteIf(ctx context.Context, id timer.ID, cond timer.Condition) (timer.Receipt, error) {
	if err := a.note("delete", id, cond); err != nil {
		return timer.Receipt{}, err
	}
	return a.Actions.DeleteIf(ctx, id, cond)
}

func (a *actions) Fire(_ context.Context, id timer.ID, cond timer.Condition) (timer.Receipt, error) {
	return timer.Receipt{}, a.note("fire", id, cond)
}

func (a *actions) Delay(_ context.Context, id timer.ID, cond timer.Condition, by time.Duration) (timer.Receipt, error) {
	return timer.Receipt{}, a.note("delay by "+by.String(), id, cond)
}

// deletes are the actions of an engine that can delete.
type deletes struct{ *node }

func (d deletes) Fire(context.Context, timer.ID, timer.Condition) (timer.Receipt, error) {
	return timer.Receipt{}, errors.ErrUnsupported
}

func (d deletes) Delay(context.Context, timer.ID, timer.Condition, time.Duration) (timer.Receipt, error) {
	return timer.Receipt{}, errors.ErrUnsupported
}

// A bulk change changes what was listed, and nothing that was written since.
func TestBulkChangesWhatWasListed(t *testing.T) {
	inCluster(t, 2, 1, func(c *cluster) {
		n := c.nodes[0]
		for i := range 30 {
			if _, err := n.Replace(c.Context(), timer.ID{Key: fmt.Sprintf("k%02d", i)}, oneShot(time.Hour+time.Duration(i)*time.Second)); err != nil {
				t.Fatal(err)
			}
		}
		newer := oneShot(0)
		a := &actions{Actions: deletes{n}, before: func(id timer.ID) error {
			if id.Key != "k05" || !newer.At.IsZero() {
				return nil
			}
			newer.At = time.Now().Add(3 * time.Hour).Truncate(time.Millisecond)
			_, err := n.Replace(c.Context(), timer.ID{Key: id.Key}, newer) // after the listing
			return err
		}}
		l := n.ListerOf(a)
		b := listing.Bulk{Query: listing.Query{Filter: listing.Filter{KeyPrefix: "k"}, Limit: 10}, Action: listing.Delete, DryRun: true}
		if done, err := l.Bulk(c.Context(), b); err != nil || done.Done != 10 || done.Next == "" || len(a.asked) > 0 {
			t.Errorf("a dry run: %+v, %v, asked %v", done, err, a.asked)
		}
		b.DryRun = false
		total, refused := 0, []string(nil)
		for {
			done, err := l.Bulk(c.Context(), b)
			if err != nil {
				t.Fatal(err)
			}
			total += done.Done
			for _, r := range done.Refused {
				if _, is := errors.AsType[*timer.ConditionError](r.Err); !is {
					t.Errorf("%s: %v", r.ID, r.Err)
				}
				refused = append(refused, r.ID[:3])
			}
			if b.Cursor = done.Next; b.Cursor == "" {
				break
			}
		}
		// The newer timer may be listed again, behind the others, and is then deleted.
		if total < 29 || total > 30 || !slices.Equal(refused, []string{"k05"}) {
			t.Errorf("%d deleted, refused %v", total, refused)
		}
	})
}

func TestBulkNamesTheAction(t *testing.T) {
	inCluster(t, 1, 1, func(c *cluster) {
		r := c.create(oneShot(time.Hour))
		a := &actions{}
		l := c.nodes[0].ListerOf(a)
		for _, b := range []listing.Bulk{{Action: listing.Fire}, {Action: listing.Delay, By: time.Minute}, {Action: "destroy"}} {
			b.Limit = 10
			done, err := l.Bulk(c.Context(), b)
			if err != nil || (b.Action == "destroy") != (len(done.Refused) == 1) || (b.Action == "destroy") != (done.Done == 0) {
				t.Errorf("%s: %+v, %v", b.Action, done, err)
			}
		}
		if want := []string{"fire " + r.ID.Key + " 1", "delay by 1m0s " + r.ID.Key + " 1"}; !slices.Equal(a.asked, want) {
			t.Errorf("asked for %v, want %v", a.asked, want)
		}
		b := listing.Bulk{Query: listing.Query{Cursor: "nonsense", Limit: 1}, Action: listing.Delete}
		if _, err := l.Bulk(c.Context(), b); !errors.Is(err, store.ErrCursor) {
			t.Errorf("%v of a malformed cursor", err)
		}
	})
}

// A node changes 500 timers a second at most, however many are asked for.
func TestBulkIsPaced(t *testing.T) {
	inCluster(t, 1, 1, func(c *cluster) {
		for i := range 1000 {
			c.create(oneShot(time.Hour + time.Duration(i)*time.Second))
		}
		l := c.nodes[0].ListerOf(&actions{})
		begun := time.Now()
		done, err := l.Bulk(c.Context(), listing.Bulk{Query: listing.Query{Limit: 1000}, Action: listing.Fire})
		if took := time.Since(begun); err != nil || done.Done != 1000 || took < 1500*time.Millisecond || took > 4*time.Second {
			t.Errorf("%d in %v, %v", done.Done, took, err)
		}
		ctx, cancel := context.WithTimeout(c.Context(), 500*time.Millisecond)
		defer cancel()
		done, err = l.Bulk(ctx, listing.Bulk{Query: listing.Query{Limit: 1000}, Action: listing.Fire})
		if err != nil || done.Done == 0 || len(done.Refused) == 0 || done.Done+len(done.Refused) != 1000 || !errors.Is(done.Refused[0].Err, timer.ErrUnavailable) {
			t.Errorf("with half a second: %d done, %d refused, %v", done.Done, len(done.Refused), err)
		}
	})
}
