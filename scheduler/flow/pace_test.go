package flow

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestPaceCountsTheYoungAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPace()
		var spans []int
		for range maxYoung {
			spans = append(spans, p.Begin())
		}
		if room := p.room(); room != 0 {
			t.Errorf("room for %d beside %d that have just begun, want none", room, maxYoung)
		}
		p.End(spans[0])
		if room := p.room(); room != 1 {
			t.Errorf("room for %d after one has ended, want 1", room)
		}
		time.Sleep(paceSpan)
		if room := p.room(); room != 1 {
			t.Errorf("room for %d one span later, want 1 still", room)
		}
		p.End(spans[1])
		if room := p.room(); room != 2 {
			t.Errorf("room for %d after another has ended, want 2", room)
		}
		time.Sleep(paceSpan)
		if room := p.room(); room != maxYoung {
			t.Errorf("room for %d once all wait for their receivers, want %d", room, maxYoung)
		}
		p.End(spans[2]) // counts no longer
		p.End(p.Begin())
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
		p := NewPace()
		begun := time.Now()
		if got := p.Wait(t.Context()); got != maxYoung || time.Since(begun) != 0 {
			t.Errorf("%d may begin after %v, want %d at once", got, time.Since(begun), maxYoung)
		}
		var spans []int
		for range maxYoung {
			spans = append(spans, p.Begin())
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			time.Sleep(time.Millisecond)
			for _, span := range spans[:maxYoung/2] {
				p.End(span)
			}
		}()
		if got := p.Wait(t.Context()); got < maxYoung/4 || time.Since(begun) != time.Millisecond {
			t.Errorf("%d may begin after %v, want some once some have ended, after 1ms", got, time.Since(begun))
		}
		<-ended
		for range maxYoung / 2 {
			p.Begin()
		}
		// No callback ends: slow callbacks no longer count, and more may begin.
		if got := p.Wait(t.Context()); got < maxYoung/4 || time.Since(begun) > 3*paceSpan {
			t.Errorf("%d may begin after %v, want some within %v", got, time.Since(begun), 3*paceSpan)
		}
		for range 2 * maxYoung {
			p.Begin()
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if got := p.Wait(ctx); got != 1 {
			t.Errorf("%d may begin after the end, want 1", got)
		}
	})
}
