package awake

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestClockStandsStillWhileTheProcessDoes(t *testing.T) {
	begun := time.Now()
	ticks := &ticks{last: begun}
	for _, step := range []struct{ at, awake, resumed int }{ // ms
		{at: 20, awake: 20},
		{at: 55, awake: 55},                  // late by less than a tick
		{at: 135, awake: 95},                 // late, and no stop
		{at: 1130, awake: 135},               // held up, and no stop
		{at: 2130, awake: 175, resumed: 175}, // stopped
		{at: 2125, awake: 175, resumed: 175}, // who was overtaken
		{at: 2135, awake: 180, resumed: 175},
	} {
		awake, resumed := ticks.move(begun.Add(ms(step.at)))
		if awake != ms(step.awake) || resumed != ms(step.resumed) {
			t.Errorf("after %d ms: awake %v, resumed at %v; want %d and %d ms", step.at, awake, resumed, step.awake, step.resumed)
		}
	}
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

func TestClockGoesOnWhileTheProcessDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start()
		defer c.Stop()
		time.Sleep(10 * time.Second)
		if now := c.Now(); now != 10*time.Second {
			t.Errorf("after 10 s awake it shows %v", now)
		}
		if since := c.Since(4 * time.Second); since != 6*time.Second {
			t.Errorf("4 s were %v ago", since)
		}
	})
}

func TestSinceBeginsAfterAStop(t *testing.T) {
	c := Following(func() (awake, resumed time.Duration) { return 9 * time.Second, 7 * time.Second })
	if since := c.Since(3 * time.Second); since != 2*time.Second {
		t.Errorf("an instant before the stop was %v ago, want the 2s since its end", since)
	}
	if since := c.Since(8 * time.Second); since != time.Second {
		t.Errorf("an instant after the stop was %v ago, want 1s", since)
	}
}

func TestTimeoutWaitsForAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, stopped := time.Now(), 3*time.Second
		c := Following(func() (awake, resumed time.Duration) {
			switch now := time.Since(begun); {
			case now < time.Second:
				return now, 0
			case now < time.Second+stopped:
				return time.Second, 0
			default:
				return now - stopped, time.Second
			}
		})
		ctx, cancel := c.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		<-ctx.Done()
		if took := time.Since(begun); took != 4500*time.Millisecond {
			t.Errorf("a timeout of 1.5 s with a stop of 3 s ended after %v", took)
		}
		if cause := context.Cause(ctx); !errors.Is(cause, context.DeadlineExceeded) {
			t.Errorf("it ended with %v", cause)
		}
	})
}

func TestTimeoutThatIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := Always().WithTimeout(t.Context(), time.Second)
		cancel()
		if !errors.Is(context.Cause(ctx), context.Canceled) {
			t.Errorf("it ended with %v", context.Cause(ctx))
		}
		time.Sleep(2 * time.Second)
	})
}
