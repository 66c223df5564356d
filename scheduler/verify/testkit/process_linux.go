package testkit

import "syscall"

// endsWithParent has the kernel kill the child if the test ends before its cleanup. The test may
// be killed, or ended by its timeout.
func endsWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
