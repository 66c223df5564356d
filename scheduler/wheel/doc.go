// Package wheel keeps items for a short while and hands each item over once the item's instant
// has come. The package is generic and knows nothing of timers, stores or callbacks: the meaning
// of items and of expiry is the caller's affair.
//
// # Structure
//
// A [Wheel] is the timing wheel of G. Varghese and A. Lauck, "Hashed and Hierarchical Timing
// Wheels: Data Structures for the Efficient Implementation of a Timer Facility", SOSP 1987. Time
// is cut into ticks of 0.125 ms, counted from the wheel's start. A ring of 4,096 slots covers the ticks
// from the current tick on, and the item of tick t waits in slot t mod 4,096, in a list. All items
// of a slot thus belong to the same tick, and the ring turns by moving its base.
//
// The paper offers two ways to reach beyond one turn: items that go round again, and a second,
// coarser ring. Our items are normally a tenth of a second ahead, so the wheel needs neither way.
// Items beyond the ring wait in one unsorted overflow list whose earliest tick is known. When this
// tick comes, all items of the list that fit into the ring move there. The list is thus walked at
// most once per turn (512 ms), and not at all while its earliest item is far off.
//
// # Why 0.125 ms
//
// An instant is rounded up to the end of the slot, so an item comes out less than 0.125 ms after the
// item's instant, plus the wake-up and a rest, and never before. Callers state times in whole milliseconds of
// other clocks, so the slots and the callers' instants are out of step by an amount that is the same for
// the wheel's whole life. Slots of 1 ms would make all items of a process late by this amount: nothing in one
// process, and a millisecond in the next. A sleeping process wakes some 50 microseconds late, so
// still finer slots would gain little.
//
// Fine slots would cost a busy process many wake-ups. Run therefore rests after a batch, for 0.25 ms an item and
// 1 ms at most; an item that is added meanwhile, and comes due before the end of the rest, ends the rest. At a few hundred items a second hardly any item comes during a rest; at thousands a second the
// items come in batches a millisecond apart.
//
// Only differences to the start are used. With times from [time.Now] the differences are
// monotonic, so a step of the wall clock moves nothing. The monotonic clock stands still while a
// machine is suspended: items come late by as much, never early.
//
// # Cost
//
// Add is O(1). Expiry is O(1) an item, plus at most one look at each slot that has passed, however
// long the pause was. An item costs the item's own size and two words. Nodes are used again, so a
// wheel after the peak allocates nothing more, and keeps the memory of the peak. The wheel sets no
// bound, so callers must (by [Wheel.Len], or a credit of their own).
//
// The goroutine in Run sleeps until the next occupied slot; while the wheel is empty, Run never
// wakes. One mutex guards everything. Add holds the mutex for some tens of nanoseconds, expiry for
// a batch's copying, and the callback runs without the mutex. A handful of goroutines that add a
// few hundred items every 100 ms don't queue for the mutex. A structure without a lock would be
// more code for nothing.
//
// # Measured
//
// On two shared cores with Go 1.26 (the package's benchmarks): Add 20 to 35 ns, 110 ns if Add also
// shortens the sleep; expiry 2 ns an item; nothing allocated. From its instant to the callback of
// Run an item took 0.11 ms in the median and 0.24 ms at p99 by the kernel's timer
// ([Wheel.SleepPrecisely]), 0.6 and 1.2 ms by Go's timer.
package wheel
