// Package statistics counts the tags of live timers.
package statistics
