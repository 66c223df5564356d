package kept_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"chronos/scheduler/kept"
)

func TestAnswerIsReadOnceInAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, reads := kept.New[int](time.Second), 0
		read := func(context.Context) int { reads++; return reads }
		for _, want := range []int{1, 1, 2} {
			if got, ok := a.Get(t.Context(), read); got != want || !ok {
				t.Errorf("%d, %v; want %d", got, ok, want)
			}
			time.Sleep(600 * time.Millisecond)
		}
	})
}

// A caller who goes away while the answer is read spoils the answer for nobody.
func TestReaderGoesOnWithoutItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := kept.New[error](time.Second)
		read := func(ctx context.Context) error {
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
			return ctx.Err()
		}
		brief, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		go func() { _, _ = a.Get(brief, read) }()
		synctest.Wait()
		if err, ok := a.Get(t.Context(), read); err != nil || !ok {
			t.Errorf("%v, %v", err, ok)
		}
	})
}

// A caller waits for the reader no longer than the caller has time.
func TestCallersWaitAsLongAsTheyHaveTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := kept.New[int](time.Second)
		go func() {
			_, _ = a.Get(t.Context(), func(context.Context) int { time.Sleep(time.Minute); return 1 })
		}()
		synctest.Wait()
		brief, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if got, ok := a.Get(brief, func(context.Context) int { return 2 }); ok {
			t.Errorf("answer %d while another caller reads", got)
		}
		time.Sleep(time.Minute) // until the reader has ended
	})
}
