// Package deadletter lets an operator look at timers whose attempts are used up, fire them
// again and delete them.
package deadletter
