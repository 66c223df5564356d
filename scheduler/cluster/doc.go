// Package cluster says how the cluster is: which nodes and shards there are, how they are, and what an
// operator should look at.
package cluster
