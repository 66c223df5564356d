package main

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// killInDirectory kills the processes that work in a directory of ours: the redis-server of a node that had to be
// killed. The result is the number of killed processes. Without /proc, killInDirectory finds no process.
func killInDirectory(dir string) int {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return 0
	}
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		return 0
	}
	killed := 0
	for _, link := range links {
		if cwd, err := os.Readlink(link); err != nil || cwd != dir {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link)))
		if err == nil && syscall.Kill(pid, syscall.SIGKILL) == nil {
			killed++
		}
	}
	return killed
}
