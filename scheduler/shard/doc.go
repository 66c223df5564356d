// Package shard keeps this node's view of the shards: how a shard answers (answers.go,
// reach.go), and since when a shard has missed writes (outage.go). The package also knows the
// partitions that this node looks after (ownership.go), and the owners of a timer (places.go).
package shard
