package destinations

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// logged is a log of a keeper.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) has(part string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), part)
}

func TestAKeeperFollowsItsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "destinations")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("https://a rate=1\n")
	synctest.Test(t, func(t *testing.T) {
		book, log := NewBook(named), &logged{}
		k, err := Open(path, book, slog.New(slog.NewTextHandler(log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { k.Run(ctx) })
		defer running.Wait()
		defer cancel()
		after := func(want float64) {
			t.Helper()
			<-time.After(5 * time.Second)
			synctest.Wait()
			if rules := book.Rules(); rules == nil || rules.Share("https://a").Rate != want {
				t.Errorf("rules %+v, want a rate of %v", rules, want)
			}
		}
		after(1)
		write("https://a rate=2\n")
		after(2)
		write("https://a rate=hush\n")
		after(2)
		if !log.has("destinations file can't be used") || log.has("hush") {
			t.Errorf("logged: %s", &log.text)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		after(2)
		write("https://a rate=3\n")
		after(3)
		write("")
		<-time.After(5 * time.Second)
		synctest.Wait()
		if rules := book.Rules(); rules != nil {
			t.Errorf("an empty file leaves the rules %+v", rules)
		}
	})
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	wrong, long := filepath.Join(dir, "wrong"), filepath.Join(dir, "long")
	if err := os.WriteFile(wrong, []byte("https://a rate=0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(long, make([]byte, 1<<20+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		dir: "the destinations file must be a regular file", filepath.Join(dir, "none"): "find destinations file", wrong: "line 1: " + faultRate, long: "the destinations file is over 1 MiB",
	} {
		if _, err := Open(path, NewBook(named), slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
}
