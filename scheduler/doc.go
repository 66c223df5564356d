// Package scheduler is one node's engine, which takes timers from clients and fires timers. The
// package puts the parts of the engine together, starts the loops and stops the loops in order.
//
//	timer ← store ← destinations ← settings ← shard ← replica ← dispatch ← scheduler
//
// A package knows the packages to its left. Package flow has bounds that dispatch needs; deadletter
// stands on replica, resync and statistics stand on shard. The rules by which the copies of a timer
// agree are in docs/protocol.md, with name, tests and promises of every rule.
package scheduler
