// Package deadletter lets an operator list dead letters, fire dead letters again and delete dead
// letters. A dead letter is a timer whose attempts are used up, or whose record can't be read.
package deadletter
