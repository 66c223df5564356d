// Package dispatch takes due timers from the claim to the settled outcome.
//
// Each shard has a poll loop. The loop claims timers that are due within a horizon a little over
// one poll interval (poll.go), in the partitions that this node polls first. The wheel smooths the
// last milliseconds. A claim of a destination with a limit or a pause waits for its turn or goes
// back (gate.go). Then the claim takes a slot (slots.go) and compares with the other copies
// (ask.go): the claim may adopt a newer state (adopt.go), or yield to a better copy. Otherwise the
// claim passes the fence, which marks the timer as firing on the shard (fence.go), and is
// delivered (fire.go). The other copies are told the outcome (tell.go), and the leased copy is
// settled (settle.go).
//
// # Why a lease is enough
//
// A claim moves the timer's score to the end of the lease. Let g be the grace (1 s) and h the hold
// time (3.5 s). A node that dies before the fence leaves the score at max(due, claim) + g; a node
// that dies after the fence leaves the score at fence + h. In either case the timer comes due
// again, and any node's next poll finds the timer. A callback may be sent only within l = 2 s of
// the moment before the fence was requested. With h > l + the time to settle, no node takes over a
// callback that may still start. [settings.Config.Validate] checks the inequality.
package dispatch
