//go:build unix

package webhook

import (
	"errors"
	"syscall"
)

// staleFunc returns a function that looks, without waiting, whether an idle connection has anything to
// read: its end, an error, or unasked bytes. Only "nothing yet" leaves the connection usable. The look
// may lose a byte, but then the connection is lost, too. The read deadline must lie ahead.
func staleFunc(raw syscall.RawConn) func() bool {
	var (
		buf   [1]byte
		quiet bool
	)
	look := func(fd uintptr) bool {
		_, err := syscall.Read(int(fd), buf[:])
		quiet = errors.Is(err, syscall.EAGAIN)
		return true
	}
	return func() bool {
		quiet = false
		err := raw.Read(look)
		return err != nil || !quiet
	}
}
