// Package simtest runs whole clusters of chronos in virtual time, with faults, and
// judges what came of it. It holds nothing but tests.
//
// What runs is what runs in production: the engine (package scheduler), the store
// (package redisstore, go-redis and the Lua scripts) and the client for callbacks
// (package scheduler/webhook), put together as the command does. Each run is a
// testing/synctest bubble, so an hour takes seconds. Around them are simulated:
//
//   - shards: miniredis, with the bubble's clock put ahead by an offset, one command
//     at a time, each in no time. A shard can be paused (it takes bytes, and executes
//     them when it wakes, even those of clients that have gone), once or again and again,
//     slow, for a moment or up to a minute, killed and started again with its data,
//     without its last writes or without any, wiped, cut off, refuse commands (READONLY,
//     LOADING, OOM, BUSY), forget its scripts, and have its clock stepped.
//   - links: between each node and each shard, and each node and the receiver, as
//     connections in memory whose buffers have no bounds. See Condition for what can
//     be wrong with one; it may be late, too, both ways or in one direction with jitter,
//     and stand still for moments. Bytes of one write arrive together, or not at all.
//   - nodes: processes on machines that are killed, stopped in order, paused, held up
//     again and again, or have their wall clock stepped. Time since boot goes on in all
//     of these.
//   - faults of whole clusters: all nodes are paused, each is cut off from another shard,
//     or the links of all nodes to one shard are slow or black holes. All other faults
//     leave a node alone.
//   - operators, who add, drain and remove shards through nodes that run, sometimes two
//     at once; their node is killed after any call of a change, or cut off from some of
//     the shards. There are one or two shards to spare. See ledger for what is judged.
//   - a receiver whose endpoints answer at once, late, with errors, or never.
//   - clients, which call the engine's methods: the HTTP edge stays outside. Each has
//     timers of its own, and asks for one thing after another. Now and then a client sends
//     two writes of one timer through two nodes at once, gives a write up and goes on with
//     another one, or creates several timers by one request. Two writes also race whenever
//     a link or a shard stands still.
//
// A bubble can't stop goroutines. So a paused node's go on, but read and write
// nothing, and clients hear nothing of it; deadlines pass during the pause instead
// of at its end, and what has a deadline is written before that or never. A killed
// node's go on too, until they have noticed; nothing of that leaves the machine.
//
// Not simulated: the HTTP edge, TLS, names, Sentinel and Cluster, commands that take
// time, what Redis and miniredis do differently, a disk's lies, and drift of clocks.
//
// The setting, the schedule of faults and what clients want to ask follow from the
// seed. How goroutines take turns doesn't, nor do random numbers within chronos
// (jitter, keys), so a rare failure may take several runs of its seed to come back.
// What clients really ask follows from the answers they got, which may differ too.
//
// Claims that find nothing, nine in ten of all script calls, and heartbeats are
// answered without a Lua state; see fastClaim, and -sim.exact to run them all.
//
// A run that heals (liveness) ends with a change of the topology, after which it must
// be at rest within 75 s: the sweep passes over all that the faults have left away from
// home. Then it is drained, and what the shards hold is judged too; some timers last
// for hours for that. Tombstones live 20 s. Shards lose data in one seed of four. One seed
// of ten polls as often as production does, the others seldom, and may be that much later.
// A link or shard so slow that calls are given up counts as cut; see the method class of
// fault.
package simtest
