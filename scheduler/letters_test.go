package scheduler_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"chronos/scheduler/deadletter"
	"chronos/scheduler/dispatch"
	"chronos/scheduler/store"
	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
)

// failing makes all callbacks fail until heal is called.
func (c *cluster) failing() (heal func()) {
	set := func(respond func(attempt) (time.Duration, dispatch.Delivered)) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.respond = respond
	}
	set(func(attempt) (time.Duration, dispatch.Delivered) {
		return 0, dispatch.Delivered{Reason: "status 500"}
	})
	return func() { set(nil) }
}

// letters are the dead letters of equal timers, in the order of their keys.
func (c *cluster) letters(asked timer.Timer) (all []store.Letter) {
	for _, name := range c.Open("probe").Shards() {
		for _, d := range c.DeadLetters(name) {
			all = append(all, store.Letter{
				ID: d.Key + d.State.Version.String(), Shard: name, At: d.At, Key: d.Key, Reason: d.Reason,
				Record: store.Record{ID: timer.ID{Key: d.Key, RF: asked.ReplicationFactor}, State: d.State, Timer: asked},
			})
		}
	}
	slices.SortFunc(all, func(a, b store.Letter) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// inCemetery lets n timers be given up on three shards before the test begins; then callbacks are
// delivered. Earlier attempts are forgotten.
func inCemetery(t *testing.T, n int, test func(c *cluster, letters []store.Letter)) {
	t.Helper()
	inCluster(t, 3, 2, func(c *cluster) {
		heal := c.failing()
		asked := oneShot(time.Second)
		asked.Tags = []timer.Tag{{Type: "call", Count: 2}}
		for range n {
			c.create(asked)
		}
		pass(3 * time.Minute)
		heal()
		letters := c.letters(asked)
		if len(letters) != n {
			c.Fatalf("%d dead letters, want %d", len(letters), n)
		}
		c.forget()
		test(c, letters)
	})
}

func (c *cluster) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attempts = nil
}

// Several requests at the same time fire a letter again once, at once, as a newer version. A
// request after the timer is over fires the same version, so the receiver can tell.
func TestALetterIsFiredAgain(t *testing.T) {
	inCemetery(t, 20, func(c *cluster, letters []store.Letter) {
		var asked sync.WaitGroup
		for i := range letters {
			for k := range 4 {
				asked.Go(func() {
					receipt, err := c.nodes[k%2].Letters(nil).FireAgain(c.Context(), &letters[i])
					if err != nil || receipt.ID.Key != letters[i].Key || receipt.ID.RF != 2 || receipt.Copies != 2 {
						c.Errorf("%s: %+v, %v", letters[i].Key, receipt, err)
					}
				})
			}
		}
		asked.Wait()
		pass(time.Second)
		for _, l := range letters {
			c.wantOnce(l.Key, 1, maxLate)
			for _, a := range c.callbacks(l.Key) {
				if a.Version <= l.Record.State.Version || a.Callback != l.Record.Timer.Callback {
					c.Errorf("fired again: %+v, its letter is of version %s", a.Delivery, l.Record.State.Version)
				}
			}
		}
		c.wantEmpty()
		l := &letters[0]
		if _, err := c.nodes[1].Letters(nil).FireAgain(c.Context(), l); err != nil {
			c.Error(err)
		}
		pass(time.Second)
		if again := c.callbacks(l.Key); len(again) != 2 || again[0].Version != again[1].Version || again[0].Seq != again[1].Seq {
			c.Errorf("fired twice: %+v, want twice the same version and sequence number", again)
		}
	})
}

// A letter that fails again is a letter again, and can be fired.
func TestALetterThatFailsAgain(t *testing.T) {
	inCemetery(t, 1, func(c *cluster, letters []store.Letter) {
		heal := c.failing()
		if _, err := c.nodes[0].Letters(nil).FireAgain(c.Context(), &letters[0]); err != nil {
			c.Fatal(err)
		}
		pass(3 * time.Minute)
		heal()
		both := c.letters(letters[0].Record.Timer)
		if len(c.callbacks(letters[0].Key)) != 5 || len(both) != 2 || both[1].Record.State.Version <= both[0].Record.State.Version {
			c.Fatalf("%d attempts, letters %+v", len(c.callbacks(letters[0].Key)), both)
		}
		c.forget()
		if _, err := c.nodes[1].Letters(nil).FireAgain(c.Context(), &both[1]); err != nil {
			c.Fatal(err)
		}
		pass(time.Second)
		c.wantOnce(letters[0].Key, 1, maxLate)
	})
}

// A newer timer of a client under the key is never touched.
func TestALetterYieldsToWhatIsNewer(t *testing.T) {
	newer := oneShot(20 * time.Second)
	newer.Callback.Opaque = "newer"
	other := newer
	other.ReplicationFactor = 3
	id := func(l *store.Letter) timer.ID { return timer.ID{Key: l.Key} }
	for name, write := range map[string]func(c *cluster, l *store.Letter) error{
		"replaced": func(c *cluster, l *store.Letter) error {
			_, err := c.nodes[1].Replace(c.Context(), id(l), newer)
			return err
		},
		"replaced with another factor": func(c *cluster, l *store.Letter) error {
			_, err := c.nodes[1].Replace(c.Context(), id(l), other)
			return err
		},
		"deleted": func(c *cluster, l *store.Letter) error {
			_, err := c.nodes[1].Delete(c.Context(), id(l))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			inCemetery(t, 10, func(c *cluster, letters []store.Letter) {
				for i := range letters {
					if err := write(c, &letters[i]); err != nil {
						c.Fatal(err)
					}
					if receipt, err := c.nodes[0].Letters(nil).FireAgain(c.Context(), &letters[i]); !errors.Is(err, timer.ErrSuperseded) {
						c.Errorf("%+v, %v, want superseded", receipt, err)
					}
				}
				pass(15 * time.Second)
				if n := len(c.seen()); n != 0 {
					c.Errorf("%d callbacks", n)
				}
				pass(10 * time.Second)
				for _, l := range letters {
					switch seen := c.callbacks(l.Key); {
					case name == "deleted" && len(seen) == 0:
					case len(seen) != 1 || seen[0].Callback.Opaque != "newer":
						c.Errorf("%s: %+v, want the newer timer alone", l.Key, seen)
					}
				}
				c.wantEmpty()
				if _, err := c.nodes[0].Letters(nil).FireAgain(c.Context(), &letters[0]); err != nil {
					c.Errorf("after that is over: %v", err)
				}
			})
		})
	}
}

// A client's write at the same moment is never lost, whichever comes first.
func TestALetterAndAClientAtTheSameTime(t *testing.T) {
	inCemetery(t, 60, func(c *cluster, letters []store.Letter) {
		newer := oneShot(5 * time.Second)
		newer.Callback.Opaque = "newer"
		var asked sync.WaitGroup
		for i := range letters {
			asked.Go(func() {
				_, err := c.nodes[0].Letters(nil).FireAgain(c.Context(), &letters[i])
				if err != nil && !errors.Is(err, timer.ErrSuperseded) {
					c.Error(err)
				}
			})
			asked.Go(func() {
				if _, err := c.nodes[1].Replace(c.Context(), timer.ID{Key: letters[i].Key, RF: 2}, newer); err != nil {
					c.Error(err)
				}
			})
		}
		asked.Wait()
		pass(10 * time.Second)
		for _, l := range letters {
			seen := c.callbacks(l.Key)
			if len(seen) == 0 || seen[len(seen)-1].Callback.Opaque != "newer" || len(seen) > 2 {
				c.Errorf("%s: %+v, want the client's timer last", l.Key, seen)
			}
		}
	})
}

// A letter is fired with the copies that can be stored, and only with an owner.
func TestALetterWhileShardsAreAway(t *testing.T) {
	inCemetery(t, 30, func(c *cluster, letters []store.Letter) {
		c.connect("s1", storetest.LinkCut)
		for i := range letters {
			if receipt, err := c.nodes[i%2].Letters(nil).FireAgain(c.Context(), &letters[i]); err != nil || receipt.Copies+receipt.Unreached != 2 {
				c.Errorf("%+v, %v", receipt, err)
			}
		}
		pass(10 * time.Second)
		for _, l := range letters {
			if n := len(c.callbacks(l.Key)); n != 1 {
				c.Errorf("%s: %d callbacks", l.Key, n)
			}
		}
		for _, name := range []string{"s0", "s2"} {
			c.connect(name, storetest.LinkCut)
		}
		if _, err := c.nodes[0].Letters(nil).FireAgain(c.Context(), &letters[0]); !errors.Is(err, timer.ErrUnavailable) {
			c.Errorf("with all shards away: %v", err)
		}
	})
}

// The deliverer decides which callbacks are valid: the callback of a bridge is no URL.
func TestALetterOfAnotherLaneIsFiredAgain(t *testing.T) {
	inCemetery(t, 1, func(c *cluster, letters []store.Letter) {
		l := letters[0]
		l.Record.Timer.Callback = timer.Callback{URI: "kafka:out", Opaque: "x"}
		if _, err := c.nodes[0].Letters(nil).FireAgain(c.Context(), &l); err != nil {
			c.Fatal(err)
		}
		pass(time.Second)
		c.wantOnce(l.Key, 1, maxLate)
	})
}

// A letter that can't be fired is refused, and nothing changes.
func TestLettersThatCannotBeFired(t *testing.T) {
	inCemetery(t, 1, func(c *cluster, letters []store.Letter) {
		change := func(edit func(l *store.Letter)) *store.Letter {
			l := letters[0]
			edit(&l)
			return &l
		}
		unreadable := fmt.Errorf("%w: for a test", store.ErrUnreadable)
		for name, l := range map[string]*store.Letter{
			"unreadable":          change(func(l *store.Letter) { l.Err = unreadable }),
			"of the last version": change(func(l *store.Letter) { l.Record.State.Version = 1<<64 - 1 }),
		} {
			if _, err := c.nodes[0].Letters(nil).FireAgain(c.Context(), l); !errors.Is(err, store.ErrUnreadable) {
				c.Errorf("%s: %v", name, err)
			}
		}
		for name, l := range map[string]*store.Letter{
			"denied":        change(func(l *store.Letter) { l.Record.Timer.Callback.URI = "http://denied/" }),
			"many copies":   change(func(l *store.Letter) { l.Record.ID.RF = 17 }),
			"no copies":     change(func(l *store.Letter) { l.Record.ID.RF = 0 }),
			"a tag of none": change(func(l *store.Letter) { l.Record.Timer.Tags = []timer.Tag{{}} }),
		} {
			if _, err := c.nodes[0].Letters(nil).FireAgain(c.Context(), l); err == nil || !errors.As(err, new(*timer.InvalidError)) {
				c.Errorf("%s: %v", name, err)
			}
		}
		c.wantEmpty()
	})
}

// drawer is a LetterStore in memory.
type drawer struct {
	mu      sync.Mutex
	letters []store.Letter
	stuck   map[string]bool // ids of letters that can't be removed
}

func (d *drawer) Letters(_ context.Context, q store.LetterQuery) (page store.LetterPage, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	page.Total, page.Unreached = int64(len(d.letters)), []string{"away"}
	for i := range d.letters {
		l := &d.letters[i]
		if l.ID <= q.Cursor || !q.Filter.Picks(l) {
			continue
		}
		if len(page.Letters) == q.Limit {
			page.Next = page.Letters[q.Limit-1].ID
			break
		}
		page.Letters = append(page.Letters, *l)
	}
	return page, nil
}

func (d *drawer) Letter(_ context.Context, id string) (store.Letter, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.letters {
		if l.ID == id {
			return l, nil
		}
	}
	return store.Letter{}, timer.ErrNotFound
}

func (d *drawer) RemoveLetters(_ context.Context, letters []store.Letter) []error {
	d.mu.Lock()
	defer d.mu.Unlock()
	errs := make([]error, len(letters))
	for i, l := range letters {
		if d.stuck[l.ID] {
			errs[i] = timer.ErrUnavailable
			continue
		}
		d.letters = slices.DeleteFunc(d.letters, func(o store.Letter) bool { return o.ID == l.ID })
	}
	return errs
}

// Letters are removed when the letters are fired, and only then; all letters have one turn.
func TestFireAllLetters(t *testing.T) {
	inCemetery(t, 250, func(c *cluster, letters []store.Letter) {
		superseded, unreadable, stuck := letters[7].ID, letters[120].ID, letters[249].ID
		if _, err := c.nodes[0].Replace(c.Context(), timer.ID{Key: letters[7].Key, RF: 2}, oneShot(time.Hour)); err != nil {
			c.Fatal(err)
		}
		letters[120].Err = store.ErrUnreadable
		kept := &drawer{letters: slices.Clone(letters), stuck: map[string]bool{stuck: true}}
		d := c.nodes[0].Letters(kept)
		var refused []string
		count, calls, begun := 0, 0, time.Now()
		for q := (store.LetterQuery{Limit: 1000}); ; calls++ {
			done, err := d.FireAll(c.Context(), q)
			if err != nil || done.Done+len(done.Refused) > 100 || !slices.Equal(done.Unreached, []string{"away"}) {
				c.Fatalf("%+v, %v", done, err)
			}
			for _, r := range done.Refused {
				refused = append(refused, r.ID)
			}
			if count += done.Done; done.Left != int64(250-count) {
				c.Errorf("%d are said to be left of 250 after %d", done.Left, count)
			}
			if q.Cursor = done.Next; q.Cursor == "" {
				break
			}
		}
		slices.Sort(refused)
		want := []string{superseded, unreadable, stuck}
		slices.Sort(want)
		if count != 247 || calls != 2 || !slices.Equal(refused, want) || len(kept.letters) != 3 {
			c.Errorf("%d fired in %d more calls, refused %v, want %v, %d left", count, calls, refused, want, len(kept.letters))
		}
		if took := time.Since(begun); took < 250*time.Millisecond || took > 10*time.Second {
			c.Errorf("fired 500 a second, and 100 at once, in %v", took)
		}
		pass(time.Second)
		for i, l := range letters {
			if n := len(c.callbacks(l.Key)); n != 1 && i != 7 && i != 120 {
				c.Errorf("letter %d: %d callbacks", i, n)
			}
		}
		c.one(d, superseded, unreadable, stuck)
	})
}

// one does with single letters as before with all letters.
func (c *cluster) one(d *deadletter.Letters, superseded, unreadable, stuck string) {
	c.Helper()
	for id, want := range map[string]error{
		superseded: timer.ErrSuperseded, unreadable: store.ErrUnreadable, stuck: timer.ErrUnavailable, "none": timer.ErrNotFound,
	} {
		if _, err := d.Fire(c.Context(), id); !errors.Is(err, want) {
			c.Errorf("fire: %v, want %v", err, want)
		}
	}
	for id, want := range map[string]error{superseded: nil, stuck: timer.ErrUnavailable, "none": timer.ErrNotFound} {
		if err := d.Delete(c.Context(), id); !errors.Is(err, want) {
			c.Errorf("delete: %v, want %v", err, want)
		}
	}
	done, err := d.DeleteAll(c.Context(), store.LetterQuery{Limit: 1000})
	if err != nil || done.Done != 1 || len(done.Refused) != 1 || done.Refused[0].ID != stuck || done.Left != 1 || done.Next != "" {
		c.Errorf("delete all: %+v, %v", done, err)
	}
}

func TestDeleteAllLetters(t *testing.T) {
	kept := &drawer{}
	for i := range 2500 {
		kept.letters = append(kept.letters, store.Letter{ID: fmt.Sprintf("%04d", i), Key: "k" + strconv.Itoa(i%2)})
	}
	inCluster(t, 1, 1, func(c *cluster) {
		d := c.nodes[0].Letters(kept)
		count := 0
		for q := (store.LetterQuery{Filter: store.LetterFilter{Key: "k1"}, Limit: 1000}); ; {
			done, err := d.DeleteAll(c.Context(), q)
			if err != nil || done.Done > 1000 {
				c.Fatalf("%+v, %v", done, err)
			}
			count += done.Done
			if q.Cursor = done.Next; q.Cursor == "" {
				break
			}
		}
		if count != 1250 || len(kept.letters) != 1250 || slices.ContainsFunc(kept.letters, func(l store.Letter) bool { return l.Key == "k1" }) {
			c.Errorf("%d are deleted, %d left", count, len(kept.letters))
		}
	})
}

// A dead letter is found by its redacted URI, and by the URI without user and password.
func TestLettersAreFoundByRedactedURI(t *testing.T) {
	letter := store.Letter{Key: "k", Record: store.Record{Timer: timer.Timer{Callback: timer.Callback{URI: "http://u:p@h/x"}}}}
	for prefix, want := range map[string]bool{
		"http://***@h/": true, "http://h/x": true, "http://h/y": false, "http://u:p@h/": false, "http://u": false, "h": true,
	} {
		filter := store.LetterFilter{Callback: prefix}
		if filter.Picks(&letter) != want {
			t.Errorf("%s: picked %v, want %v", prefix, !want, want)
		}
	}
}
