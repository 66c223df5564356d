// Package wheel keeps items for a short while and hands each over once its
// millisecond has come. It is generic and knows nothing of timers, stores or
// callbacks: what it holds and what expiry means is the caller's affair.
//
// # Structure
//
// A [Wheel] is the timing wheel of G. Varghese and A. Lauck, "Hashed and
// Hierarchical Timing Wheels: Data Structures for the Efficient Implementation
// of a Timer Facility", SOSP 1987. Time is cut into ticks of 1 ms, counted from
// the wheel's start. A ring of 512 slots covers the ticks from the current one
// on, and the item of tick t waits in slot t mod 512, in a list. All items of a
// slot thus belong to the same tick, and the ring turns by moving its base.
//
// The paper offers two ways to reach beyond one turn: items that go round again,
// and a second, coarser ring. We need neither, since our items are normally a
// tenth of a second ahead: what lies beyond the ring waits in one unsorted
// overflow list whose earliest tick is known. When that tick comes, everything
// in the list that fits into the ring moves there, so the list is walked at most
// once per turn (512 ms), and not at all while its earliest item is far off.
//
// # Why 1 ms
//
// Callers state times in whole milliseconds, and a sleeping process wakes some
// hundred microseconds late (a millisecond by Go's own timers on Linux), so a
// finer slot would promise what the machine doesn't keep, and a coarser one would
// add to every item's lateness. An instant is rounded up to the end of its slot, so an item
// comes out less than 1 ms after its instant, plus the wake-up, and never before.
//
// Only differences to the start are used. With times from [time.Now] these are
// monotonic, so a step of the wall clock moves nothing. While a machine is
// suspended that clock stands still: items come late by as much, never early.
//
// # Cost
//
// Add is O(1). Expiry is O(1) an item, plus at most one look at each slot that
// has passed, however long the pause was. An item costs its own size and two
// words. Nodes are used again, so a wheel that has seen its peak allocates
// nothing more, and keeps the memory of that peak; it sets no bound itself, so
// whoever adds must (by [Wheel.Len], or a credit of its own).
//
// The goroutine in Run sleeps until the next occupied slot; with nothing to wait
// for it doesn't wake at all. One mutex guards everything. It is held for some
// tens of nanoseconds by Add and for a batch's copying by expiry, never during
// the callback; a handful of goroutines that each add a few hundred items every
// 100 ms don't queue for it, and a structure without a lock would be more code
// for nothing.
//
// # Measured
//
// On two shared cores with Go 1.26 (the package's benchmarks): Add 20 to 35 ns,
// 110 ns where it also shortens the sleep; expiry 2 ns an item; nothing
// allocated. From its instant to the callback of Run an item took 0.55 ms in the
// median and 1.1 ms at p99 by the kernel's timer ([Wheel.SleepPrecisely]), 1.0
// and 2.0 ms by Go's: half a millisecond of it is the rounding to slots.
package wheel
