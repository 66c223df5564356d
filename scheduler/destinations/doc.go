// Package destinations has the limits and the pauses of destinations, as far as this node knows.
//
// A destination is scheme://host:port of callbacks. The limits come from a file of this node
// (Keeper). They hold for all nodes together: each node takes an equal share. The pauses come from
// operators, and reach this node by the heartbeats of the shards. Every shard keeps the latest
// decision about each destination, and the latest decision that some shard has counts (Book).
//
// A node that knows neither a limit nor a pause has no Rules.
package destinations
