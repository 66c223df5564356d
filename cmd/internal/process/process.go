// Package process starts and ends the binaries of chronos.
package process

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/redis/go-redis/v9/logging"
)

// Main is the life of the process called name: Main calls run, and returns the exit
// status. The heap may grow by gcPercent of the live data, unless GOGC says otherwise.
// SIGTERM and SIGINT end run's context. The second signal ends the process at once; outlook
// then tells the user the fate of the work under way.
func Main(name, outlook string, gcPercent int, run func(ctx context.Context, environ []string, logTo io.Writer) error) int {
	logging.Disable() // or go-redis writes to standard error beside our log; go-redis also returns what it logs
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, stop := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() { // ends with the process
		awaitSecond(signals, stop)
		fmt.Fprintln(os.Stderr, "second signal: ending at once; "+outlook)
		os.Exit(1) //nolint:revive // deep-exit: to end at once is what was asked for
	}()
	if err := run(ctx, os.Environ(), os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		return 1
	}
	return 0
}

// sameRequest is how long further signals still count as the first signal. timeout(1) and some
// supervisors signal a process and its group, so every signal comes twice.
const sameRequest = 250 * time.Millisecond

// awaitSecond calls stop at the first signal and returns at the second.
func awaitSecond(signals <-chan os.Signal, stop func()) {
	<-signals
	stop()
	for first := time.Now(); time.Since(first) < sameRequest; {
		<-signals
	}
}

// NewLog makes the log of the process: as JSON, or else as text.
func NewLog(to io.Writer, level slog.Level, format string) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(to, options))
	}
	return slog.New(slog.NewTextHandler(to, options))
}

// Beside runs work in the background until stop is called; stop waits for the end of the
// work. The end of ctx doesn't end the work.
func Beside(ctx context.Context, work func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() { defer close(done); work(ctx) }()
	return func() { cancel(); <-done }
}

// URLOf is the URL of a scheme under which this machine reaches a listener.
func URLOf(scheme string, l net.Listener) string {
	host, port, err := net.SplitHostPort(l.Addr().String())
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return scheme + "://localhost:" + port
	}
	return scheme + "://" + l.Addr().String()
}

// Collectors are the metrics of every process: of Go, of the process, and of the build.
func Collectors() []prometheus.Collector {
	version, golang := Version()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "chronos_build_info", Help: "1, with the version of the build and of Go.", ConstLabels: prometheus.Labels{"version": version, "goversion": golang},
	})
	build.Set(1)
	return []prometheus.Collector{collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), build}
}

// release is the version of chronos, the same as the newest version in CHANGELOG.
const release = "v0.2.0"

// Version is the version of the build, and the version of Go. The version is the release, and the commit if the build
// knows the commit: v0.2.0+9d6474aa00a2, with .dirty if files were changed after the commit.
func Version() (version, golang string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return release, "unknown"
	}
	return versionOf(info), info.GoVersion
}

func versionOf(info *debug.BuildInfo) string {
	commit, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = "+" + s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = ".dirty"
		}
	}
	if commit == "" {
		return release
	}
	return release + commit + dirty
}
