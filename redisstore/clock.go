package redisstore

import (
	"sync/atomic"
	"time"
)

// shardClock estimates a shard's clock from its last answer. The estimate is
// late by at most the way back of that answer, never ahead, as long as the
// shard's clock isn't stepped; a step is learnt with the next answer.
type shardClock struct {
	start    time.Time // of this process's monotonic clock
	offsetUs atomic.Int64
}

func newShardClock() *shardClock { return &shardClock{start: time.Now()} }

func (c *shardClock) learn(nowUs int64) {
	c.offsetUs.Store(nowUs - time.Since(c.start).Microseconds())
}

// in is the shard's time after d, in ms.
func (c *shardClock) in(d time.Duration) int64 {
	return (time.Since(c.start).Microseconds() + c.offsetUs.Load() + d.Microseconds()) / 1000
}
