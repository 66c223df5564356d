//go:build unix

package webhook

import (
	"errors"
	"syscall"
)

// staleFunc returns a function that looks, without waiting, whether there is
// anything to read on a connection where nothing should be: its end, an error,
// or bytes that nobody asked for. Only "nothing yet" leaves it usable. A byte
// that is read for that is lost, but so is then the connection. The read
// deadline must lie ahead.
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
