// Package topology is how nodes agree on which shards there are and where timers belong. No
// coordinator is needed: every shard keeps the topology, and majorities of the shards decide.
//
// # The states of a shard
//
//	        add             7 s              drain             7 s                remove
//	(none) ─────► joining ─────► active ─────────► leaving ─────► draining ─────────────► (none)
//	                                ▲                                 │ add
//	                                └──────────── joining ◄───────────┘
//
//	joining   the shard takes no timers yet; every node already looks for copies there
//	active    the shard takes timers
//	leaving   the shard takes timers for some seconds more
//	draining  the shard takes no timers, and the sweep moves the copies away
//
// [Topology.StateOf] derives the state from two lists: Active counts now, and Next counts soon.
// The lists that counted before stay in Former until the sweep has passed, since a copy may
// still be at a former owner.
//
// Two marks stand beside the state:
//
//	given up   (Lost) The shard was away for too long. Nodes drain the shard and wait for it no
//	           more. Once the shard is back and swept, the shard joins by itself, unless an
//	           operator has drained it meanwhile.
//	voiceless  (Voiceless) An operator has drained the shard by force. Majorities do not count
//	           the shard.
//
// # The agreement
//
// Each change makes a topology with the next epoch. A topology counts once a majority of the
// topology's own shards hold it, or hold a later topology. A change goes through these steps:
//
//  1. Lock a majority of the shards, each for 10 s, and read what the shards hold (propose).
//  2. Finish the change that another node has begun and left (base), as in Paxos: the begun
//     topology may count already. Only one of two rival changes goes on, as the next epoch
//     (settleRivals).
//  3. Refuse the change while too few shards can be reached (away). A joining shard must not
//     belong to another cluster (vet). A removed shard is told first (dismiss).
//  4. Store the topology on a majority of all shards, of the shards that take timers, of the
//     shards that will, and of the shards that did (agree).
//
// A change of Active is agreed on twice. First the new list is announced as Next. After 7 s any
// node makes the list count. Until then every node has read the announcement: a node that could
// not read the topology for 5 s refuses writes (Writable). Therefore no two nodes are more than one
// step apart.
//
// [Cluster] is one node's part. Each second, Follow reads the topology from all shards (look)
// and adopts the agreed topology (weigh). Follow also restores the topology on shards that lack
// it, finishes the changes of dead nodes, and makes announced changes count. A node that has just
// started changes and writes nothing until half of the shards confirm the topology (stands).
//
// A call about timers works with one [Placement], which never changes. The agreement sees a
// shard as a [Shard], and the store as the functions in [Options].
package topology
