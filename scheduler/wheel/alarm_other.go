//go:build !linux

package wheel

import "errors"

func newKernelTimer() (alarm, error) { return nil, errors.ErrUnsupported }
