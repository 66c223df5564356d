//go:build linux

package machine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// tick is the unit of times in /proc. Linux shows hundredths of a second to programs, whatever the
// tick of the kernel.
const tick = 10 * time.Millisecond

var errProc = errors.New("unexpected content in /proc")

// CPU is the processor time that all threads of a process have taken, as a multiple of 10 ms.
func CPU(pid int) (time.Duration, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, fmt.Errorf("read processor time: %w", err)
	}
	return parseStat(string(text))
}

func parseStat(text string) (time.Duration, error) {
	// The name, in parentheses, may hold anything.
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	const user, system = 11, 12 // counted from the state, field 3
	if len(fields) <= system {
		return 0, fmt.Errorf("read processor time: %w", errProc)
	}
	u, err := strconv.ParseInt(fields[user], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read processor time: %w", err)
	}
	s, err := strconv.ParseInt(fields[system], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read processor time: %w", err)
	}
	return time.Duration(u+s) * tick, nil
}

// Memory is the resident memory of a process in bytes: now, and the highest so far.
func Memory(pid int) (now, peak int64, err error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0, 0, fmt.Errorf("read memory: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		if name != "VmRSS" && name != "VmHWM" {
			continue
		}
		kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("read memory: %w", err)
		}
		if name == "VmRSS" {
			now = kb << 10
		} else {
			peak = kb << 10
		}
	}
	if now == 0 || peak == 0 {
		return 0, 0, fmt.Errorf("read memory: %w", errProc)
	}
	return now, peak, nil
}

// Description describes the kind of the measured machine, and nothing that identifies the machine.
type Description struct {
	Cores  int    `json:"cores"`
	CPU    string `json:"cpu"`
	Go     string `json:"go"`
	Redis  string `json:"redis"`
	Kernel string `json:"kernel"`
}

// Describe looks at the machine. An unknown property is "unknown".
func Describe(ctx context.Context) Description {
	return Description{Cores: runtime.NumCPU(), CPU: cpuModel(), Go: runtime.Version(), Redis: redisVersion(ctx), Kernel: kernel()}
}

func cpuModel() string {
	file, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if name, value, _ := strings.Cut(lines.Text(), ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func redisVersion(ctx context.Context) string {
	output, err := exec.CommandContext(ctx, "redis-server", "--version").Output()
	if err != nil {
		return "unknown"
	}
	if found := regexp.MustCompile(`v=([0-9.]+)`).FindSubmatch(output); found != nil {
		return string(found[1])
	}
	return "unknown"
}

// kernel leaves out the part of the release that builders append: the part may name the builders.
func kernel() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "unknown"
	}
	release := unix.ByteSliceToString(name.Release[:])
	if found := regexp.MustCompile(`^[0-9.]+`).FindString(release); found != "" {
		return "Linux " + found
	}
	return "unknown"
}
