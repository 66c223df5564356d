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
		if total != 29 || !slices.Equal(refused, []string{"k05"}) {
			t.Errorf("%d deleted, refused %v", total, refused)
		}
	})
}

// A delayed timer comes again on a later page, and is left out there.
func TestBulkDelaysOnce(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		const by = 10 * time.Minute
		due := map[string]time.Time{}
		for i := range 120 {
			asked := oneShot(time.Hour + time.Duration(i)*30*time.Second)
			if i%2 == 0 {
				asked = recurring(time.Hour+time.Duration(i)*30*time.Second, 3)
			}
			r := c.create(asked)
			due[r.ID.Key] = r.Due.Add(by)
		}
		b := listing.Bulk{Query: listing.Query{Filter: listing.Filter{DueAfter: time.Now()}, Limit: 10}, Action: listing.Delay, By: by}
		if done, leftOut := c.bulk(b); done != len(due) || leftOut == 0 {
			t.Errorf("%d delayed, want %d; %d left out, want some", done, len(due), leftOut)
		}
		all := c.listAll(c.nodes[0].ListerOf(nil), listing.Filter{}, 100, nil)
		for i := range all {
			if got := &all[i]; got.Due.Sub(due[got.ID.Key]).Abs() > 100*time.Millisecond {
				t.Errorf("due at %v, want %v", got.Due, due[got.ID.Key])
			}
		}
		if len(all) != len(due) {
			t.Errorf("%d timers, want %d", len(all), len(due))
		}
	})
}

// A recurring timer that was fired comes again on a later page, and is not fired again.
func TestBulkFiresOnce(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		const many = 60
		for i := range many {
			c.create(recurring(10*time.Minute+time.Duration(i)*time.Second, 20))
		}
		b := listing.Bulk{Query: listing.Query{Filter: listing.Filter{DueAfter: time.Now()}, Limit: 10}, Action: listing.Fire}
		if done, leftOut := c.bulk(b); done != many || leftOut == 0 {
			t.Errorf("%d fired, want %d; %d left out, want some", done, many, leftOut)
		}
		pass(10 * time.Second)
		pops := map[string]int{}
		for _, a := range c.seen() {
			pops[a.ID.Key]++
		}
		for key, n := range pops {
			if n != 1 {
				t.Errorf("%d callbacks of %s", n, key)
			}
		}
		if len(pops) != many {
			t.Errorf("%d timers called back, want %d", len(pops), many)
		}
		again := listing.Bulk{Query: listing.Query{Filter: listing.Filter{DueAfter: time.Now()}, Limit: many}, Action: listing.Fire}
		if done, err := c.nodes[0].ListerOf(c.nodes[0]).Bulk(c.Context(), again); err != nil || done.Done != many || done.LeftOut > 0 {
			t.Errorf("another change, of one page: %+v, %v", done, err)
		}
	})
}

// bulk makes a change page by page, through the nodes in turn, with a second between pages.
func (c *cluster) bulk(b listing.Bulk) (changed, leftOut int) {
	c.Helper()
	for page := 0; ; page++ {
		n := c.nodes[page%len(c.nodes)]
		done, err := n.ListerOf(n).Bulk(c.Context(), b)
		if err != nil || page > 1000 {
			c.Fatalf("page %d: %v", page, err)
		}
		for _, r := range done.Refused {
			c.Errorf("%s: %v", r.ID, r.Err)
		}
		leftOut += done.LeftOut
		changed += done.Done
		if b.Cursor = done.Next; b.Cursor == "" {
			return changed, leftOut
		}
		pass(time.Second)
	}
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
