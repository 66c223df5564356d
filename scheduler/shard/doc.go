// Package shard has each shard as this node sees it: how the shard answers (answers.go,
// reach.go), what it has missed (outage.go), which of its partitions this node looks after
// (ownership.go), and where the copies of a timer belong (places.go).
package shard
