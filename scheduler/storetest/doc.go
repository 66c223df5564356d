// Package storetest defines the duties of a [chronos/scheduler/store.Store], three times over. Run is the contract
// as an executable suite. Model is a store in memory that keeps the contract. rules.go is the contract in the fewest
// words: one shard's copies and nothing else. The suite runs against the model, the scripts on an in-process Redis
// and the scripts on a real Redis. Random histories are compared with the model. The engine is tested on the model,
// whose calls can be made to fail.
package storetest
