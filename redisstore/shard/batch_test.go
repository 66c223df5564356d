package shard

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"chronos/scheduler/timer"
)

// bench is a batcher whose flushes wait for the test.
type bench struct {
	*batcher
	begun chan []int    // the items of a flush, by their partitions
	goOn  chan struct{} // one value for each flush

	mu      sync.Mutex
	flushed []int
}

func newBench() *bench {
	b := &bench{begun: make(chan []int, 1000), goOn: make(chan struct{})}
	b.batcher = newBatcher(func(items []*Item) {
		var all []int
		for _, it := range items {
			all = append(all, it.Partition)
		}
		b.begun <- all
		<-b.goOn
		b.mu.Lock()
		defer b.mu.Unlock()
		b.flushed = append(b.flushed, all...)
	}, time.Hour, moreFlushers)
	return b
}

// submitted queues items with the given numbers, and returns the coming answer of submitAndWait.
func (b *bench) submitted(ctx context.Context, numbers ...int) <-chan error {
	items := make([]*Item, len(numbers))
	for i, n := range numbers {
		items[i] = &Item{Partition: n}
	}
	answer := make(chan error, 1)
	go func() { answer <- b.submitAndWait(ctx, items) }()
	synctest.Wait() // the items stand in the queue, or are being flushed
	return answer
}

// A Job that was flushed in time counts, even if the caller looks only when the caller's time is over: until then the
// caller has waited for another shard.
func TestWhatWasFlushedInTimeCounts(t *testing.T) {
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		j := Job{ctx: ctx, done: make(chan struct{})}
		close(j.done)
		cancel()
		if err := j.Wait(); err != nil {
			t.Fatalf("it was flushed, and its caller is told: %v", err)
		}
	}
}

// submitAndWait does as every caller of the batcher does.
func (b *batcher) submitAndWait(ctx context.Context, items []*Item) error {
	j, err := b.Submit(ctx, items)
	if err != nil {
		return err
	}
	return j.Wait()
}

// busy keeps both flushers busy with items -1 and -2.
func (b *bench) busy(t *testing.T) []<-chan error {
	t.Helper()
	answers := []<-chan error{b.submitted(t.Context(), -1), b.submitted(t.Context(), -2)}
	for _, want := range []int{-1, -2} {
		if got := <-b.begun; !slices.Equal(got, []int{want}) {
			t.Fatalf("a lone write is flushed as %v, want %d alone and at once", got, want)
		}
	}
	return answers
}

// finish lets all flushes go on and ends the flushers.
func (b *bench) finish() {
	close(b.goOn)
	b.drain()
}

func wantAnswered(t *testing.T, answers ...<-chan error) {
	t.Helper()
	synctest.Wait()
	for i, answer := range answers {
		select {
		case err := <-answer:
			if err != nil {
				t.Errorf("submission %d: %v", i, err)
			}
		default:
			t.Errorf("submission %d has no answer", i)
		}
	}
}

func TestWhatGathersGoesTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		first := b.busy(t)
		var later []<-chan error
		for n := range 20 {
			later = append(later, b.submitted(t.Context(), 2*n, 2*n+1))
		}
		b.goOn <- struct{}{}
		synctest.Wait()
		var want []int
		for n := range 40 {
			want = append(want, n)
		}
		if diff := cmp.Diff(want, <-b.begun); diff != "" {
			t.Errorf("the next flush (-want +got):\n%s", diff)
		}
		for i, answer := range later {
			if len(answer) != 0 {
				t.Errorf("submission %d is answered before it is flushed", i)
			}
		}
		b.finish()
		wantAnswered(t, append(later, first...)...)
	})
}

func TestFlushHasABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		answers := b.busy(t)
		hundred := make([]int, 100)
		for range 12 {
			answers = append(answers, b.submitted(t.Context(), hundred...))
		}
		for _, want := range []int{MaxItems, MaxItems, 200} {
			b.goOn <- struct{}{}
			if got := len(<-b.begun); got != want {
				t.Errorf("a flush of %d items, want %d", got, want)
			}
		}
		b.finish()
		wantAnswered(t, answers...)
	})
}

func TestWhoGivesUpInTheQueueIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		first := b.busy(t)
		ctx, cancel := context.WithCancel(t.Context())
		given, kept := b.submitted(ctx, 1), b.submitted(t.Context(), 2)
		alone := b.submitted(ctx, 3)
		cancel()
		synctest.Wait()
		for _, answer := range []<-chan error{given, alone} {
			if err := <-answer; !errors.Is(err, context.Canceled) {
				t.Errorf("who gives up is answered %v", err)
			}
		}
		b.finish()
		wantAnswered(t, append(first, kept)...)
		slices.Sort(b.flushed)
		if diff := cmp.Diff([]int{-2, -1, 2}, b.flushed); diff != "" {
			t.Errorf("flushed (-want +got):\n%s", diff)
		}
	})
}

func TestWhoGivesUpDuringTheFlushIsAnsweredAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		ctx, cancel := context.WithCancel(t.Context())
		answer := b.submitted(ctx, 1)
		<-b.begun
		cancel()
		synctest.Wait()
		if err := <-answer; !errors.Is(err, context.Canceled) {
			t.Errorf("answered %v", err)
		}
		b.finish()
		if diff := cmp.Diff([]int{1}, b.flushed); diff != "" {
			t.Errorf("flushed (-want +got):\n%s", diff)
		}
	})
}

func TestFullQueueIsAnsweredAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		answers := b.busy(t)
		for range maxQueuedJobs {
			answers = append(answers, make(chan error, 1))
			// Not through goroutines: 16,384 goroutines would take seconds.
			b.jobs <- Job{ctx: t.Context(), done: make(chan struct{})}
		}
		if err := <-b.submitted(t.Context(), 1); !errors.Is(err, timer.ErrOverloaded) {
			t.Errorf("a full queue is answered %v, want ErrOverloaded", err)
		}
		b.finish()
		wantAnswered(t, answers[:2]...)
		slices.Sort(b.flushed)
		if diff := cmp.Diff([]int{-2, -1}, b.flushed); diff != "" {
			t.Errorf("flushed (-want +got):\n%s", diff)
		}
	})
}

func TestCloseFlushesWhatIsQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		answers := b.busy(t)
		answers = append(answers, b.submitted(t.Context(), 1, 2), b.submitted(t.Context(), 3))
		closed := make(chan struct{})
		go func() {
			b.drain()
			close(closed)
		}()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("closed while flushes are under way")
		default:
		}
		close(b.goOn)
		<-closed
		wantAnswered(t, answers...)
		slices.Sort(b.flushed)
		if diff := cmp.Diff([]int{-2, -1, 1, 2, 3}, b.flushed); diff != "" {
			t.Errorf("flushed (-want +got):\n%s", diff)
		}
	})
}

// A shard that is removed meanwhile may be closed before a caller comes to the shard.
func TestItemsAfterCloseAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.finish()
		if err := b.submitAndWait(t.Context(), []*Item{{}}); !errors.Is(err, ErrClosed) {
			t.Errorf("after the end: %v, want ErrClosed", err)
		}
	})
}

// With many writers at once, every item is flushed once, and before the item's writer goes on.
func TestNoneIsLost(t *testing.T) {
	const writers, each = 50, 200
	var mu sync.Mutex
	count := make([]int, writers*each)
	flushes := 0
	b := newBatcher(func(items []*Item) {
		mu.Lock()
		defer mu.Unlock()
		flushes++
		for _, it := range items {
			count[it.Partition]++
		}
	}, flushPatience, moreFlushers)
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				n := w*each + i
				if err := b.submitAndWait(t.Context(), []*Item{{Partition: n}}); err != nil {
					t.Error(err)
				}
				mu.Lock()
				if count[n] != 1 {
					t.Errorf("item %d is answered and was flushed %d times", n, count[n])
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	b.drain()
	for n, times := range count {
		if times != 1 {
			t.Errorf("item %d was flushed %d times", n, times)
		}
	}
	t.Logf("%d writes in %d flushes", writers*each, flushes)
}

// When flushes take long, additional flushes go out beside them, a while apart from one another.
func TestLateFlushesHoldUpNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, goOn := make(chan struct{}, 100), make(chan struct{})
		b := newBatcher(func([]*Item) {
			begun <- struct{}{}
			<-goOn
		}, flushPatience, moreFlushers)
		var writers sync.WaitGroup
		for n := range flushers + moreFlushers + 5 {
			writers.Go(func() {
				if err := b.submitAndWait(t.Context(), []*Item{{Partition: n}}); err != nil {
					t.Error(err)
				}
			})
			time.Sleep(2 * flushPatience)
		}
		if got, want := len(begun), flushers+moreFlushers; got != want {
			t.Errorf("%d flushes are under way, want %d", got, want)
		}
		close(goOn)
		writers.Wait()
		b.drain()
	})
}
