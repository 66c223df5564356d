//go:build !linux

package testkit

import "syscall"

// endsWithParent does nothing: only Linux knows of it.
func endsWithParent() *syscall.SysProcAttr { return nil }
