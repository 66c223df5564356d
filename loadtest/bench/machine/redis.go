//go:build linux

// Package machine starts and stops the programs that the bench measures. Each program is a process
// of its own in a temporary directory. /proc tells the CPU time and the memory of a process.
package machine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"chronos/loadtest/child"
)

// Redis is a redis-server with a client.
type Redis struct {
	*child.Process
	Address string
	Client  *redis.Client
	dir     string
}

// StartRedis starts an empty redis-server without snapshots. With aof, the redis-server has an
// append-only file, synced each second. The caller must call Stop.
func StartRedis(ctx context.Context, dir string, aof bool) (*Redis, error) {
	own, err := os.MkdirTemp(dir, "redis-")
	if err != nil {
		return nil, fmt.Errorf("start redis-server: %w", err)
	}
	address, err := child.FreeAddress()
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("start redis-server: %w", err)
	}
	appendonly := "no"
	if aof {
		appendonly = "yes"
	}
	process, err := child.Start(ctx, "redis-server", dir, nil, "redis-server", "--bind", "127.0.0.1", "--port", port,
		"--dir", own, "--save", "", "--appendonly", appendonly, "--appendfsync", "everysec")
	if err != nil {
		return nil, fmt.Errorf("%w; redis-server must be on PATH (Debian: apt-get install redis-server)", err)
	}
	r := &Redis{Process: process, Address: address, dir: own}
	r.Client = redis.NewClient(&redis.Options{
		Addr: address, Protocol: 2, ReadTimeout: time.Minute, WriteTimeout: time.Minute, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	if err := process.Until(ctx, func(ctx context.Context) error { return r.Client.Ping(ctx).Err() }); err != nil {
		return nil, errors.Join(err, r.Stop())
	}
	return r, nil
}

// Stop ends the redis-server and removes the data.
func (r *Redis) Stop() error {
	return errors.Join(r.Client.Close(), r.Process.Stop(), os.RemoveAll(r.dir))
}

// Info returns a field of INFO as a number.
func (r *Redis) Info(ctx context.Context, section, field string) (int64, error) {
	text, err := r.Client.Info(ctx, section).Result()
	if err != nil {
		return 0, fmt.Errorf("ask redis-server for %s: %w", field, err)
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), field+":"); ok {
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("ask redis-server for %s: %w", field, err)
			}
			return n, nil
		}
	}
	return 0, fmt.Errorf("ask redis-server for %s: it does not say", field)
}

// ScriptTime is the time that Redis has spent in EVALSHA since CONFIG RESETSTAT.
func (r *Redis) ScriptTime(ctx context.Context) (time.Duration, error) {
	text, err := r.Client.Info(ctx, "commandstats").Result()
	if err != nil {
		return 0, fmt.Errorf("ask redis-server for its commands: %w", err)
	}
	_, after, ok := strings.Cut(text, "cmdstat_evalsha:")
	_, after, ok2 := strings.Cut(after, "usec=")
	digits, _, ok3 := strings.Cut(after, ",")
	us, err := strconv.ParseInt(digits, 10, 64)
	if !ok || !ok2 || !ok3 || err != nil {
		return 0, errors.New("ask redis-server for its commands: it does not tell of EVALSHA")
	}
	return time.Duration(us) * time.Microsecond, nil
}
