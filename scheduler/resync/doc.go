// Package resync tells clients page by page which timers have a copy on a shard.
package resync
