// Package scheduler is one node's engine, which takes timers from clients and fires them. It
// puts the rooms of the engine together, starts their loops and stops them in order.
//
//	timer ← store ← settings ← shard ← replica ← dispatch ← scheduler
//
// Each package knows those to its left. Package flow has bounds that dispatch needs; deadletter
// stands on replica, resync and statistics stand on shard. The rules by which the copies of a
// timer agree are in docs/protocol.md, each with its name, its tests and the promise that it
// serves.
package scheduler
