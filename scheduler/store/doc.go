// Package store is the contract between the engine and the shards that keep timers. Shards fail
// independently. [Store] is made of small interfaces, by kind of work: placement, copies, leases,
// membership, sweeping, giving up, listing and counting.
//
// Package storetest has the contract as tests. Package redisstore keeps timers in Redis.
package store
