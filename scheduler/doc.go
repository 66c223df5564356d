// Package scheduler is the engine that moves timers from creation to callback. Package timer
// says what a timer is, package store what a store of timers must do; what delivers a
// callback is in deliver.go.
//
// # The way of a timer
//
// Create: a client's request is validated (package timer), given an ID and a
// version (client.go), and told to all copies of the timer (attempt.go, write.go),
// wherever these may be (places.go). Fire: one poll loop per shard claims what
// is due within a horizon a little over one poll interval (poll.go), in those
// partitions that this node is the first to look after (ownership.go); the wheel
// smooths the last milliseconds; a copy that isn't the best takes the better ones
// first (contend.go); a slot is taken (slots.go); the other copies are asked
// (ask.go); the fence marks
// the timer as firing on its shard (fence.go), as fast as callbacks are worked on
// (pace.go); the deliverer calls back (fire.go); the outcome is told to the
// other copies (tell.go) and settled, in batches (settle.go).
//
// Beside that way: shards come and go (shards.go), are watched (watch.go) and given up
// when they are away for too long; the sweep brings copies where they belong (sweep.go,
// stray.go), after such a change or when a shard has missed something (outage.go). Dead
// letters are fired again (letters.go), tags are counted (statistics.go), and other
// systems are told where timers belong (resync.go, references.go).
//
// The rules by which copies agree are in docs/protocol.md, each with its name, its tests
// and the promise that it serves.
//
// # Why a lease is enough
//
// A claim moves the timer's score to the lease end. Let g be the grace (1 s)
// and h the hold time (3.5 s). A node that dies before the fence leaves the
// score at max(due, claim) + g; one that dies after it leaves it at fence + h.
// In both cases the timer simply comes due again and any node's next poll finds
// it. A callback may be sent only within l = 2 s of the moment *before* the
// fence was requested, so h > l + the time to settle means that nobody takes
// over a callback that may still start. The inequality is checked by
// [Config.Validate].
package scheduler
