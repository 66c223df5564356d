// Package model explores the copies protocol of chronos (its rules are in
// docs/protocol.md) state by state: one timer, two nodes, two to four shards, at most two
// DELETEs or PUTs, at most one change of the shards, and every interleaving of what
// they do within a budget of faults. It shares no code with the scheduler. It says
// whether the rules are right, not whether the code keeps them.
//
// A [Scenario] names the timer, the faults and the [Rules] that are followed;
// [Explore] walks all its states, breadth first, and returns a [Result] with the
// violations of the promises and the shortest way to each.
//
// # Time
//
// A tick is a second. What a healthy node can do at once is urgent: the clock
// does not pass it. Faults, the client's operation and the answer of a callback
// may come at any moment. A shard without answer counts as silent after a tick.
//
// # Where things are
//
// scenario.go has what is asked, rules.go the switches, state.go the words,
// merge.go what a shard does with a write. step.go puts together what may happen
// next, one file per actor: create.go, client.go,
// overtaken.go, late.go, factor.go and again.go (clients), claim.go (poll
// and claim), away.go (copies away from home), take.go, ask.go (ask, fence,
// send), outcome.go (the callback's answer, told to all), settle.go (the leased
// copy), sweep.go (in one step, where no shards change), change.go (what a node
// knows of a change, and where copies belong for it), carry.go (the sweep of a
// change, in two steps), repair.go (GET), fault.go and clock.go. check.go judges,
// explore.go walks.
//
// README.md says what breaks without each rule, docs/decisions/model.md what else was found.
package model
