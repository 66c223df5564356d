package dispatch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestPaceCountsTheYoungAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace()
		var spans []int
		for range maxYoung {
			spans = append(spans, p.begin())
		}
		if room := p.room(); room != 0 {
			t.Errorf("room for %d beside %d that have just begun, want none", room, maxYoung)
		}
		p.end(spans[0])
		if room := p.room(); room != 1 {
			t.Errorf("room for %d after one has ended, want 1", room)
		}
		time.Sleep(paceSpan)
		if room := p.room(); room != 1 {
			t.Errorf("room for %d one span later, want 1 still", room)
		}
		p.end(spans[1])
		if room := p.room(); room != 2 {
			t.Errorf("room for %d after another has ended, want 2", room)
		}
		time.Sleep(paceSpan)
		if room := p.room(); room != maxYoung {
			t.Errorf("room for %d once all wait for their receivers, want %d", room, maxYoung)
		}
		p.end(spans[2]) // counts no longer
		p.end(p.begin())
		if room := p.room(); room != maxYoung {
			t.Errorf("room for %d after an old one has ended, want %d", room, maxYoung)
		}
		time.Sleep(time.Hour)
		if room := p.room(); room != maxYoung {
			t.Errorf("room for %d after an hour, want %d", room, maxYoung)
		}
	})
}

func TestPaceWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace()
		begun := time.Now()
		if got := p.wait(t.Context()); got != maxYoung || time.Since(begun) != 0 {
			t.Errorf("%d may begin after %v, want %d at once", got, time.Since(begun), maxYoung)
		}
		var spans []int
		for range maxYoung {
			spans = append(spans, p.begin())
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			time.Sleep(time.Millisecond)
			for _, span := range spans[:maxYoung/2] {
				p.end(span)
			}
		}()
		if got := p.wait(t.Context()); got < maxYoung/4 || time.Since(begun) != time.Millisecond {
			t.Errorf("%d may begin after %v, want some once some have ended, after 1ms", got, time.Since(begun))
		}
		<-ended
		for range maxYoung / 2 {
			p.begin()
		}
		// Nothing ends: then they are slow, and others may begin.
		if got := p.wait(t.Context()); got < maxYoung/4 || time.Since(begun) > 3*paceSpan {
			t.Errorf("%d may begin after %v, want some within %v", got, time.Since(begun), 3*paceSpan)
		}
		for range 2 * maxYoung {
			p.begin()
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if got := p.wait(ctx); got != 1 {
			t.Errorf("%d may begin after the end, want 1", got)
		}
	})
}
