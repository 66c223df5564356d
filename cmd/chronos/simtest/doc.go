// Package simtest runs whole clusters of chronos in virtual time, with faults, and judges the recorded histories.
// The package holds nothing but tests.
//
// The runs use the production code: the engine (package scheduler), the store (package redisstore, go-redis and the
// Lua scripts) and the client for callbacks (package scheduler/webhook), put together as the command does. Each run
// is a testing/synctest bubble, so an hour takes seconds. The surroundings are simulated:
//
//   - shards: miniredis, with the bubble's clock put ahead by an offset. A shard executes one command at a time, in no
//     time. A shard can be paused, once or again and again: a paused shard takes bytes, and executes the commands on
//     waking, even if the client has gone. A shard can be slow, for a moment or up to a minute. A shard can be killed
//     and started again with its data, without its last writes or without any data. A shard can be wiped, be cut off,
//     refuse commands (READONLY, LOADING, OOM, BUSY), forget its scripts, and have its clock stepped.
//   - links between each node and each shard, and between each node and the receiver: connections in memory whose
//     buffers have no bounds. Condition lists the faults of a link. A link may also be late, in both directions or in
//     one direction with jitter, and stand still for moments. Bytes of one write arrive together, or not at all.
//   - nodes: processes on machines. A node can be killed, stopped in order, paused, or held up again and again, or
//     have its wall clock stepped. Time since boot goes on through all these faults.
//   - faults of whole clusters: all nodes are paused, each node is cut off from another shard, or the links of all
//     nodes to one shard are slow or black holes. All other faults leave a node alone.
//   - operators: they add, drain and remove shards through running nodes, sometimes two at once. Their node may be
//     killed after any call of a change, or cut off from some of the shards. One or two shards are to spare. See ledger
//     for the judged properties.
//   - a receiver whose endpoints answer at once, late, with errors, or never.
//   - clients: they call the engine's methods, without the HTTP edge. Each client has timers of its own, and sends one
//     request after another. Now and then a client sends two writes of one timer through two nodes at once. A client
//     may give up a write and go on with the next, or create several timers by one request. Two writes also race
//     whenever a link or a shard stands still.
//
// A bubble can't stop goroutines. The goroutines of a paused node go on, but read and write nothing, and clients hear
// nothing from the node. Deadlines pass during the pause instead of at its end; a write with a deadline happens
// before the deadline or never. The goroutines of a killed node go on too, until they have noticed the kill; none of
// their writes leaves the machine.
//
// Not simulated: the HTTP edge, TLS, names, Sentinel and Cluster, commands that take time, differences between Redis
// and miniredis, a disk's lies, and drift of clocks.
//
// The setting, the schedule of faults and the intended requests follow from the seed. The turns of goroutines, and
// random numbers within chronos (jitter, keys), don't follow from the seed. A rare failure may take several runs of
// its seed to come back. The real requests also depend on earlier answers, and the answers may differ.
//
// Heartbeats, and claims that find nothing, are nine in ten of all script calls. The simulation answers these calls
// without a Lua state; see fastClaim, and -sim.exact to run all scripts.
//
// A run that heals (liveness) ends with a change of the topology. The topology must be at rest within 75 s: the sweep
// passes over all copies that the faults have left on wrong shards. Then the run is drained, and the contents of the
// shards are judged too; some timers last for hours for this purpose. Tombstones live 20 s. Shards lose data in one
// seed of four. In one seed of ten, nodes poll as often as in production. In all other seeds nodes poll less often: the
// shortest skew is longer accordingly, and callbacks may be later. A link or shard so slow that calls are given up counts as cut; see the method
// class of fault.
package simtest
