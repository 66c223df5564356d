package scheduler_test

import (
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
		found, err := c.nodes[0].Letters(d).Groups(c.Context())
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
		found, err = c.nodes[0].Letters(d).Groups(c.Context())
		if err != nil || found.LookedAt != deadletter.MaxLookedAt || len(found.Groups) != deadletter.MaxGroups || found.Complete {
			t.Errorf("looked at %d, %d groups, complete %v, %v", found.LookedAt, len(found.Groups), found.Complete, err)
		}
	})
}
