// Package model explores the copies protocol of chronos state by state. The rules are in
// docs/protocol.md. A run has one timer, two nodes, two to four shards, at most two DELETEs or
// PUTs, at most one change of the shards, and a budget of faults. The model visits every
// interleaving. It shares no code with the scheduler: the model says whether the rules are
// right, not whether the code keeps the rules.
//
// A [Scenario] names the timer, the faults and the [Rules]. [Explore] walks all states of the
// scenario, breadth first. The [Result] has the violations of the promises and the shortest way
// to each.
//
// # Time
//
// A tick is a second. A step that a healthy node can do at once is urgent: the clock does not
// pass the step. Faults, clients' writes and the answer of a callback may come at any moment. A
// shard without an answer counts as silent after a tick.
//
// # Files
//
//	scenario.go, rules.go      the question: a scenario and the switches
//	state.go, merge.go         the state, and what a shard does with a write
//	step.go                    what may happen next, from the files below
//	create.go, client.go       a client's POST; a client's PUT and DELETE
//	condition.go, patch.go     a write on a condition; a PATCH
//	hasten.go                  a fire and a delay
//	overtaken.go               a write that meets a newer write
//	late.go, repair.go         a write that arrives late; a write that missed an owner
//	claim.go, take.go, ask.go  claim; yield to better copies; compare, fence and send
//	outcome.go, settle.go      the answer of a callback, and its way to all copies
//	sweep.go                   the sweep without a change, in one step
//	change.go, carry.go        a change of the shards; the sweep of a change, in two steps
//	fault.go, clock.go         faults and time
//	check.go, explore.go       the judge and the walk
//
// README.md says what breaks without each rule. docs/decisions/model.md has the answers to
// questions.
package model
