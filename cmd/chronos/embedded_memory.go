package main

import (
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/alicebob/miniredis/v2"
)

// memory is a Redis inside the node's own process: for a first try, since it
// keeps nothing. It listens on a free port of the loopback interface.
type memory struct {
	redis *miniredis.Miniredis
	addr  string
	stop  sync.Once
}

var _ backend = (*memory)(nil)

// startMemory starts an empty one. Its TIME is the wall clock.
func startMemory() (*memory, error) {
	redis := miniredis.NewMiniRedis()
	redis.ClockTTL(true) // keys expire with time, not only when a test says so
	if err := redis.Start(); err != nil {
		return nil, fmt.Errorf("start Redis in memory: %w", err)
	}
	return &memory{redis: redis, addr: redis.Addr()}, nil
}

func (m *memory) URL() string { return "redis://" + m.addr + "/0" }

func (m *memory) CLI() string {
	_, port, err := net.SplitHostPort(m.addr)
	if err != nil {
		return "redis-cli -u " + m.URL()
	}
	return "redis-cli -p " + port
}

// Stop drops what was kept.
func (m *memory) Stop(context.Context) error {
	m.stop.Do(m.redis.Close)
	return nil
}
