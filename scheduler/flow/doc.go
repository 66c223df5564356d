// Package flow bounds what a node has in hand: credit for claims, queues between the stations
// of a claim, and the pace at which callbacks begin.
package flow
