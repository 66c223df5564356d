// Package sitemodel explores the rules by which timers survive the loss of a whole site, state by state
// (docs/protocol.md, "Rules between sites"). A run has two sites, one timer with one copy in each site, at most two writes of clients, and a
// budget of faults. The model visits every interleaving. The model shares no code with the scheduler.
//
// A [Scenario] names the timer, the writes, the faults and the [Rules]. [Explore] walks all states of the scenario,
// breadth first. The [Result] has the violations of the promises and the shortest way to each. testdata/ways.txt has the
// shortest way to a violation for each rule, with the rule off.
//
// # Words
//
// The home of a version is the site whose copy comes due first; the copy of the other site comes due later by a delay. A
// mark is a note beside a copy: the other site may lack the version, or may lack the outcome of a pop. A site that lost
// its data is filled from the other site.
//
// # Time
//
// A tick is a second. A step that a healthy node can do at once is urgent: the clock does not pass the step. Messages to
// the other site, faults, writes and the answer of a callback may come at any moment, and the home may never hear of an
// outcome. A write may reach the other site up to a tick after the answer.
//
// # Modelled
//
// One-shot and recurring timers. PUT and DELETE at either site; a PUT on a key without a timer is a POST. The comparison
// and the callback are two steps. Telling a marked copy and removing the mark are two steps. A fill reads,
// writes, and notes its end in three steps. Faults: the sites don't hear each other for a while; a site is lost for good;
// a site loses all data, or some shards with the timer's copies; the nodes of a site stand still or die; a mark can't be
// written.
//
// # Not modelled
//
// A site is one shard and one node: scheduler/verify/model walks the copies inside of a site. So a comparison is one
// step, and a write to the own site fails only with the site. Left out, too: failed callbacks, conditions, PATCH, fires,
// idempotency keys, GET, different epochs, a third site, the mark that stands for all timers of a shard, and the second
// until a site counts as unreachable. A duplicate has the webhook-id of the first callback by construction: version and
// pop.
//
// # Files
//
//	scenario.go, rules.go  the question: a scenario and the switches
//	state.go               the state, and what a merge does
//	step.go                what may happen next, and the clock
//	look.go, call.go       a copy comes due: compare, yield, adopt; callback, outcome, marks
//	write.go, fault.go     a client's write; faults and the fill
//	check.go, explore.go   the judge and the walk
//
// docs/protocol.md has the shortest way to a violation for each rule, and docs/decisions/model.md what the model answered.
package sitemodel
