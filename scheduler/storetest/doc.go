// Package storetest says what a [chronos/scheduler/store.Store] must do, three times over: Run
// is the contract as an executable suite, Model is a store in memory that keeps
// it, and rules.go is the contract in the fewest words, one shard's copies and
// nothing else. The suite runs against the model, the scripts on an in-process
// Redis and the scripts on a real one; random histories are compared with the
// model; and the engine is tested on the model, whose calls can be made to fail.
package storetest
