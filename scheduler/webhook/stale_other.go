//go:build !unix

package webhook

import "syscall"

// staleFunc can't look without waiting on this system. A connection that the receiver has closed costs
// an attempt.
func staleFunc(syscall.RawConn) func() bool {
	return func() bool { return false }
}
