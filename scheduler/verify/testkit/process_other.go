//go:build !linux

package testkit

import "syscall"

// endsWithParent does nothing: only Linux can end a child with the parent.
func endsWithParent() *syscall.SysProcAttr { return nil }
