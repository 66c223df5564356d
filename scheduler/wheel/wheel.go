package wheel

import (
	"math"
	"sync"
	"time"
)

const (
	slotWidth = 125 * time.Microsecond
	slotCount = 4096 // a power of two, so that a mask finds the slot of a tick

	// The rest after a batch, in ticks.
	restPerItem = int64(250 * time.Microsecond / slotWidth)
	longestRest = int64(time.Millisecond / slotWidth)

	lastTick = math.MaxInt64 / int64(slotWidth)
	never    = math.MaxInt64
)

// A Wheel holds items until their instant has come, in slots of 0.125 ms.
//
// Create a Wheel with [New]; the zero value is not usable. All methods are safe for concurrent
// use, and only Run blocks. A wheel is driven in one of two ways: by [Wheel.Run], which sleeps and
// calls back, or by hand with [Wheel.Advance] and [Wheel.Next]. A wheel needs no call to close:
// the end of Run closes the wheel to Add, and [Wheel.Drain] then yields the rest.
//
// Every item for which Add returned true comes out exactly once, through Run's callback, Advance
// or Drain.
type Wheel[T any] struct {
	start time.Time // tick 0; never changes
	alarm alarm     // wakes Run; set under mu; idle if the wheel is driven by hand

	mu         sync.Mutex // guards everything below
	slots      [slotCount]list[T]
	far        list[T] // items beyond the ring when placed
	farMin     int64   // earliest tick in far, or never
	free       *node[T]
	base       int64 // all ticks before base are over; slots hold [base, base+slotCount)
	count      int
	sleepUntil int64 // tick to which the timer was last set; 0 before Run
	closed     bool  // set by the end of Run
}

// New returns an empty wheel whose slots are counted from now. Take now from [time.Now], so that
// now carries a monotonic reading. To run a wheel in a testing/synctest bubble, create the wheel
// in the bubble.
func New[T any](now time.Time) *Wheel[T] {
	return &Wheel[T]{start: now, farMin: never, alarm: newGoTimer()}
}

// SleepPrecisely has Run sleep by a timer of the kernel: Run wakes half a millisecond sooner in
// the median than by Go's timer. Call SleepPrecisely before Run, and not in a testing/synctest
// bubble, since the kernel doesn't know the bubble's clock. The error says that the system has no
// such timer; Run works all the same.
func (w *Wheel[T]) SleepPrecisely() error {
	precise, err := newKernelTimer()
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.alarm = precise
	return nil
}

// Add puts item into the wheel. The item comes out once at has come: at is rounded up to the end
// of a slot of 0.125 ms, so never earlier than at. An instant in the past is as good as now. Any delay is
// allowed; 292 years, the range of [time.Duration], stand for all longer delays. Delays under half
// a second are the cheapest.
//
// Add returns false, and leaves the item to the caller, if Run has ended.
func (w *Wheel[T]) Add(at time.Time, item T) bool {
	tick := w.tickFrom(at)

	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	n := w.newNode()
	n.tick, n.item = max(tick, w.base), item
	w.place(n)
	w.count++
	if n.tick < w.sleepUntil {
		w.sleep(n.tick)
	}
	return true
}

// Advance appends to out every item whose instant has come at now, and returns the extended slice.
// Earlier slots come first. Within a slot items come in the order of Add, but an item added more
// than half a second ahead may come later. A now before the now of an earlier call counts as the
// earlier call's now.
//
// Advance is for callers that drive the wheel themselves instead of by Run.
func (w *Wheel[T]) Advance(now time.Time, out []T) []T {
	w.mu.Lock()
	defer w.mu.Unlock()
	tick := max(w.tickBefore(now), w.base)
	for t := w.next(); t <= tick; t = w.next() {
		w.base = t
		if t == w.farMin {
			w.refill()
		}
		out = w.take(w.slot(t), out)
	}
	w.base = tick
	return out
}

// Next returns the instant at which the next item comes out, and false if the wheel is empty. If
// the instant isn't in the future, Advance has something to hand over right away.
func (w *Wheel[T]) Next() (time.Time, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	tick := w.next()
	if tick == never {
		return time.Time{}, false
	}
	return w.instant(tick), true
}

// Len returns the number of items in the wheel, without the items that Run is just handing to the
// callback.
func (w *Wheel[T]) Len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count
}

// Drain takes out all items, due or not, and returns out with the items appended, in no particular
// order. At shutdown, call Drain after Run has returned: nothing can be added then, so Drain
// yields all the rest. Before the end of Run the wheel stays in use.
func (w *Wheel[T]) Drain(out []T) []T {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.slots {
		out = w.take(&w.slots[i], out)
	}
	out = w.take(&w.far, out)
	w.farMin = never
	return out
}

// next returns the earliest tick with an item, or never.
func (w *Wheel[T]) next() int64 {
	if w.count == 0 {
		return never
	}
	for t := w.base; t < w.base+slotCount; t++ {
		if w.slot(t).head != nil {
			return min(t, w.farMin)
		}
	}
	return w.farMin
}

// place files n where n's tick belongs as seen from the base.
func (w *Wheel[T]) place(n *node[T]) {
	if n.tick < w.base+slotCount {
		w.slot(n.tick).push(n)
		return
	}
	w.far.push(n)
	w.farMin = min(w.farMin, n.tick)
}

// refill moves the items that the ring now reaches from the overflow list into the ring.
func (w *Wheel[T]) refill() {
	n := w.far.head
	w.far, w.farMin = list[T]{}, never
	for n != nil {
		next := n.next
		w.place(n)
		n = next
	}
}

// take empties l into out and keeps the nodes for the next items.
func (w *Wheel[T]) take(l *list[T], out []T) []T {
	for n := l.head; n != nil; {
		next := n.next
		out = append(out, n.item)
		*n = node[T]{next: w.free}
		w.free = n
		w.count--
		n = next
	}
	*l = list[T]{}
	return out
}

func (w *Wheel[T]) newNode() *node[T] {
	n := w.free
	if n == nil {
		return new(node[T])
	}
	w.free = n.next
	return n
}

func (w *Wheel[T]) slot(tick int64) *list[T] {
	return &w.slots[tick&(slotCount-1)]
}

// tickFrom returns the first tick that isn't before t.
func (w *Wheel[T]) tickFrom(t time.Time) int64 {
	d := t.Sub(w.start)
	tick := int64(d / slotWidth)
	if d%slotWidth > 0 && tick < lastTick {
		tick++
	}
	return tick
}

// tickBefore returns the last tick that isn't after t, for a t after the start.
func (w *Wheel[T]) tickBefore(t time.Time) int64 {
	return int64(t.Sub(w.start) / slotWidth)
}

func (w *Wheel[T]) instant(tick int64) time.Time {
	return w.start.Add(time.Duration(tick) * slotWidth)
}

// A list is a queue of nodes; the zero value is empty.
type list[T any] struct {
	head, tail *node[T]
}

type node[T any] struct {
	next *node[T]
	tick int64
	item T
}

func (l *list[T]) push(n *node[T]) {
	n.next = nil
	if l.head == nil {
		l.head = n
	} else {
		l.tail.next = n
	}
	l.tail = n
}
