package process

import (
	"context"
	"log/slog"
	"net"
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestAwaitSecond: signals that come soon after the first do not count as the second.
func TestAwaitSecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		signals := make(chan os.Signal, 2)
		ctx, stop := context.WithCancel(t.Context())
		ended := false
		go func() { awaitSecond(signals, stop); ended = true }()
		for _, step := range []struct {
			after          time.Duration
			stopped, ended bool
		}{{0, true, false}, {sameRequest / 2, true, false}, {sameRequest/2 - 1, true, false}, {1, true, true}} {
			time.Sleep(step.after)
			signals <- syscall.SIGTERM
			synctest.Wait()
			if stopped := ctx.Err() != nil; stopped != step.stopped || ended != step.ended {
				t.Errorf("%v later: stopped %v, ended %v; want %v, %v", step.after, stopped, ended, step.stopped, step.ended)
			}
		}
	})
}

func TestVersion(t *testing.T) {
	t.Parallel()
	for want, settings := range map[string][]debug.BuildSetting{
		release:                   {{Key: "GOOS", Value: "linux"}, {Key: "vcs.modified", Value: "true"}},
		release + "+9d6474aa00a2": {{Key: "vcs.revision", Value: "9d6474aa00a28ea961b534bc70d8604a2a867790"}, {Key: "vcs.modified", Value: "false"}},
		release + "+9d6474aa00a2.dirty": {
			{Key: "vcs.modified", Value: "true"}, {Key: "vcs.revision", Value: "9d6474aa00a28ea961b534bc70d8604a2a867790"},
		},
	} {
		if got := versionOf(&debug.BuildInfo{Settings: settings}); got != want {
			t.Errorf("version is %q, want %q", got, want)
		}
	}
}

// TestReleaseIsTheNewestVersion finds a new version in CHANGELOG that the program does not say, and the other way round.
func TestReleaseIsTheNewestVersion(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	newest := regexp.MustCompile(`(?m)^## v.*$`).FindString(string(text))
	if newest != "## "+release {
		t.Errorf("the newest version in CHANGELOG is %q, and the program says %q", newest, release)
	}
}

func TestBeside(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := false
		stop := Beside(ctx, func(ctx context.Context) {
			<-ctx.Done()
			time.Sleep(time.Second)
			ended = true
		})
		cancel()
		time.Sleep(time.Minute)
		if ended {
			t.Error("the work ended with the context, want it to go on until it is stopped")
		}
		if stop(); !ended {
			t.Error("the work isn't over after its stop")
		}
	})
}

func TestNewLog(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{"text": "level=WARN msg=kept n=1\n", "json": `"level":"WARN","msg":"kept","n":1}` + "\n"} {
		var out strings.Builder
		log := NewLog(&out, slog.LevelWarn, format)
		log.Info("left out")
		log.Warn("kept", "n", 1)
		if got := out.String(); !strings.HasSuffix(got, want) || strings.Count(got, "\n") != 1 {
			t.Errorf("%s: %q, want one line that ends in %q", format, got, want)
		}
	}
}

// listener is a net.Listener with a given address.
type listener struct {
	net.Listener
	at net.TCPAddr
}

func (l *listener) Addr() net.Addr { return &l.at }

func TestURLOf(t *testing.T) {
	t.Parallel()
	for ip, want := range map[string]string{
		"0.0.0.0": "http://localhost:7253", "::": "http://localhost:7253", "127.0.0.1": "http://127.0.0.1:7253", "fd00::1": "http://[fd00::1]:7253",
	} {
		if got := URLOf("http", &listener{at: net.TCPAddr{IP: net.ParseIP(ip), Port: 7253}}); got != want {
			t.Errorf("%s: %s, want %s", ip, got, want)
		}
	}
}
