package destinations

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

const to = "https://api.example.com:443"

// pause is a decision of a moment, which lasts from then on; 0 ends a pause.
func pause(at time.Time, lasts time.Duration) store.Decision {
	d := store.Decision{Destination: to, Stamp: timer.VersionAt(at, 1)}
	if lasts > 0 {
		d.Until, d.Left = at.Add(lasts), time.Until(at.Add(lasts))
	}
	return d
}

func TestNodesShareALimit(t *testing.T) {
	book := NewBook(nil)
	if book.Rules() != nil {
		t.Error("an empty book has rules")
	}
	book.Limit(map[string]Limit{to: {Rate: 60, Burst: 4, Concurrency: 5}})
	for nodes, want := range map[int]Share{0: {60, 4, 5}, 1: {60, 4, 5}, 2: {30, 2, 2}, 10: {6, 1, 1}} {
		book.Live(nodes)
		if got := book.Rules().Share(to); got != want {
			t.Errorf("the share of one of %d nodes is %+v, want %+v", nodes, got, want)
		}
	}
	if got := book.Rules().Share("https://other.example.com:443"); got != (Share{}) {
		t.Errorf("a destination without a limit has the share %+v", got)
	}
}

func TestTheLatestDecisionCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book, begun := NewBook(nil), time.Now()
		paused := func(what string, want bool) {
			t.Helper()
			rules := book.Rules()
			if got := rules != nil && rules.Paused(to, time.Now()); got != want || book.Paused() > 0 != want {
				t.Errorf("%s: paused %t, want %t", what, got, want)
			}
		}
		first, resumed, again := pause(begun, time.Hour), pause(begun.Add(time.Second), 0), pause(begun.Add(2*time.Second), time.Minute)
		if unheard := book.Hear([]store.Decision{first}, begun); len(unheard) > 0 {
			t.Errorf("the shard that said so has not heard of %+v", unheard)
		}
		paused("after a pause", true)
		book.Hear([]store.Decision{resumed}, begun)
		paused("after a resume", false)
		if diff := cmp.Diff([]store.Decision{resumed}, book.Hear([]store.Decision{first}, begun)); diff != "" {
			t.Errorf("a shard with the earlier pause has not heard of (-want +got):\n%s", diff)
		}
		paused("after the earlier pause came back", false)
		book.Hear([]store.Decision{again}, begun)
		paused("after the next pause", true)
		if unheard := book.Hear(nil, begun); len(unheard) != 1 || unheard[0].Stamp != again.Stamp {
			t.Errorf("an empty shard has not heard of %+v, want the next pause", unheard)
		}
		<-time.After(time.Minute + 3*time.Second)
		paused("after the end", false)
		book.Hear(nil, time.Now())
		if book.Rules() != nil || len(book.Views()) > 0 {
			t.Errorf("after the end the rules are %+v, the views %+v", book.Rules(), book.Views())
		}
		book.Hear([]store.Decision{first}, time.Now())
		paused("after the first pause came back late", false)
		<-time.After(timing.KnownDecisionLife)
		book.Hear(nil, time.Now())
		if len(book.decisions) > 0 {
			t.Errorf("%d decisions are known for ever", len(book.decisions))
		}
		book.Hear([]store.Decision{again}, time.Now())
		if len(book.decisions) > 0 {
			t.Error("a decision older than every pause is taken")
		}
	})
}

func TestDecisionsAreBounded(t *testing.T) {
	book, now := NewBook(nil), time.Now()
	all := make([]store.Decision, maxKnown+10)
	for i := range all {
		all[i] = pause(now, time.Hour)
		all[i].Destination = fmt.Sprint(i)
	}
	book.Hear(all, now)
	if len(book.decisions) != maxKnown || book.Paused() != maxKnown {
		t.Errorf("%d decisions are known, %d pauses; want %d", len(book.decisions), book.Paused(), maxKnown)
	}
}
