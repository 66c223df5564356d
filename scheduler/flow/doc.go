// Package flow bounds the work in hand of a node: credit for claims, queues between the stations
// of a claim, and the pace of new callbacks.
package flow
