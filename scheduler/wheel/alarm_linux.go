package wheel

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// kernelTimer is a timerfd. The runtime's poller waits for a timerfd as for a connection, to the
// microsecond; the runtime's own timers wake in whole milliseconds.
type kernelTimer struct {
	fd   int
	file *os.File // of fd
}

func newKernelTimer() (alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create timerfd: %w", err)
	}
	return &kernelTimer{fd: fd, file: os.NewFile(uintptr(fd), "timerfd")}, nil
}

func (t *kernelTimer) set(d time.Duration) { t.settime(max(d, 1)) }

func (t *kernelTimer) unset() { t.settime(0) }

// settime fails only for arguments that no caller gives.
func (t *kernelTimer) settime(d time.Duration) {
	_ = unix.TimerfdSettime(t.fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}, nil)
}

func (t *kernelTimer) wait(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { _ = t.file.SetReadDeadline(time.Unix(1, 0)) }) // fails only if the file is closed already
	defer stop()
	var expirations [8]byte
	_, _ = t.file.Read(expirations[:]) // neither the bytes nor the error matter
}

func (t *kernelTimer) close() { _ = t.file.Close() }
