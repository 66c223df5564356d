//go:build !linux

package bridgetest

import "syscall"

// endsWithParent is for Linux alone.
func endsWithParent() *syscall.SysProcAttr { return nil }
