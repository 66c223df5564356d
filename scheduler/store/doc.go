// Package store is the contract between the engine and what keeps timers: shards that fail
// independently of each other. [Store] is made of small interfaces, one for each kind of
// work: placement, copies, leases, membership, sweeping, listing and counting.
//
// Package storetest has the contract as tests. Package redisstore keeps timers in Redis.
package store
