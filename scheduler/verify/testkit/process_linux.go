package testkit

import "syscall"

// endsWithParent has the kernel kill the child when a test is killed, or ended by
// its timeout, before its cleanup.
func endsWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
