package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"chronos/scheduler/deadletter"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

func TestLettersAreGrouped(t *testing.T) {
	inCluster(t, 1, 1, func(c *cluster) {
		begin := time.Now()
		d := &drawer{}
		add := func(uri, reason string, err error) {
			n := len(d.letters)
			d.letters = append(d.letters, store.Letter{
				ID: fmt.Sprintf("%06d", n), At: begin.Add(-time.Duration(n) * time.Second), Reason: reason, Err: err,
				Record: store.Record{Timer: timer.Timer{Callback: timer.Callback{URI: uri}}},
			})
		}
		for i := range 2500 { // the newest first
			add(fmt.Sprintf("http://%d/", i%2), "status 503", nil)
		}
		add("http://0/", "refused", nil)
		add("", "unreadable", errors.New("unreadable"))
		all := c.nodes[0].Letters(d)
		found, err := all.Groups(c.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := []deadletter.Group{
			{Destination: "http://0/", Reason: "status 503", Count: 1250, Newest: begin, Oldest: begin.Add(-2498 * time.Second)},
			{Destination: "http://1/", Reason: "status 503", Count: 1250, Newest: begin.Add(-time.Second), Oldest: begin.Add(-2499 * time.Second)},
			{Reason: "unreadable", Count: 1, Newest: begin.Add(-2501 * time.Second), Oldest: begin.Add(-2501 * time.Second)},
			{Destination: "http://0/", Reason: "refused", Count: 1, Newest: begin.Add(-2500 * time.Second), Oldest: begin.Add(-2500 * time.Second)},
		}
		if !slices.Equal(found.Groups, want) || found.LookedAt != 2502 || found.Complete || !slices.Equal(found.Unreached, []string{"away"}) {
			t.Errorf("%+v, want %+v", found, want)
		}
		for i := range deadletter.MaxLookedAt {
			add(fmt.Sprintf("http://of/%d", i%300), "status 500", nil)
		}
		if again, err := all.Groups(c.Context()); err != nil || again.LookedAt != found.LookedAt {
			t.Errorf("a moment later: looked at %d, %v; want the same groups", again.LookedAt, err)
		}
		pass(5 * time.Second)
		found, err = all.Groups(c.Context())
		if err != nil || found.LookedAt != deadletter.MaxLookedAt || len(found.Groups) != deadletter.MaxGroups || found.Complete {
			t.Errorf("looked at %d, %d groups, complete %v, %v", found.LookedAt, len(found.Groups), found.Complete, err)
		}
	})
}

// A change to many letters changes no more letters than the caller allows.
func TestNoMoreLettersAreChangedThanAllowed(t *testing.T) {
	inCluster(t, 1, 1, func(c *cluster) {
		d := &drawer{}
		for n := range 50 {
			d.letters = append(d.letters, store.Letter{
				ID: fmt.Sprintf("%06d", n), At: time.Now(), Key: fmt.Sprint("k", n),
				Record: store.Record{ID: timer.ID{Key: fmt.Sprint("k", n), RF: 1}, State: timer.State{Version: timer.VersionAt(time.Now(), uint16(n))}, Timer: oneShot(0)},
			})
		}
		all := c.nodes[0].Letters(d)
		for i, change := range []func(context.Context, store.LetterQuery) (deadletter.Done, error){all.DeleteAll, all.FireAll} {
			done, err := change(c.Context(), store.LetterQuery{Limit: 7})
			if err != nil || done.Done != 7 || len(d.letters) != 50-7*(i+1) {
				t.Errorf("%+v, %v; %d letters left", done, err, len(d.letters))
			}
		}
	})
}
