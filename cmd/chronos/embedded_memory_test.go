package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"chronos/scheduler/verify/testkit"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	m, err := startMemory()
	if err != nil {
		t.Fatal(err)
	}
	storeKey(t, m)
	wantKey(t, m)
	c := clientOf(t, m)
	now, err := c.Eval(t.Context(), "return redis.call('TIME')[1]", nil).Int64()
	if off := time.Since(time.Unix(now, 0)); err != nil || off < 0 || off > 5*time.Second {
		t.Errorf("TIME in a script is %d, %v; that is %s off", now, err, off)
	}
	if err := c.Set(t.Context(), "brief", "x", 5*time.Millisecond).Err(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, startLimit, "a key expires", func() bool { return errors.Is(c.Get(t.Context(), "brief").Err(), redis.Nil) })
	if !strings.HasPrefix(m.URL(), "redis://127.0.0.1:") || !strings.HasPrefix(m.CLI(), "redis-cli -p ") {
		t.Errorf("URL %s, CLI %s", m.URL(), m.CLI())
	}
	stopBackend(t, m)
	stopBackend(t, m)
	// Another process may have the port by now, but not the stored data.
	if kept, err := clientOf(t, m).Get(t.Context(), "timer").Result(); err == nil {
		t.Errorf("after Stop the store still answers: %q", kept)
	}
}
