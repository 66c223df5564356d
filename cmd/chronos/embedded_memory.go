package main

import (
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/alicebob/miniredis/v2"
)

// memory is a Redis inside the node's own process, on a free port of the loopback
// interface. A memory is for a first try only, since all data ends with the process.
type memory struct {
	redis *miniredis.Miniredis
	addr  string
	stop  sync.Once
}

var _ backend = (*memory)(nil)

// startMemory starts an empty Redis. The command TIME gives the wall clock.
func startMemory() (*memory, error) {
	redis := miniredis.NewMiniRedis()
	redis.ClockTTL(true) // keys expire with time, and not only on command
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

// Stop drops all data.
func (m *memory) Stop(context.Context) error {
	m.stop.Do(m.redis.Close)
	return nil
}
