package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"chronos/redisstore/shard"
	"chronos/scheduler/awake"
	"chronos/scheduler/timing"
)

// ErrDedicated says that the deliverer kind's timers on these shards have another purpose.
var ErrDedicated = errors.New("in use for something else")

// Dedicate notes the purpose of the deliverer kind's timers on all shards that can be reached. Otherwise nodes with
// another purpose would take the timers for their own. Dedicate fails with ErrDedicated while a node with another
// purpose lives. If no such node shows itself within NodeLife, the timers are taken over. Dedicate is called before
// the node announces itself.
func (s *Store) Dedicate(ctx context.Context, purpose string) error {
	other := s.dedications(ctx, purpose)
	if other.purpose != "" && !other.alive {
		if !awake.Sleep(ctx, timing.NodeLife) { // nodes of the other purpose may be about to announce themselves
			return fmt.Errorf("dedicate the lane: %w", ctx.Err())
		}
		other = s.dedications(ctx, purpose)
	}
	switch {
	case other.alive:
		return fmt.Errorf("dedicate the lane to %s: %w: %s", purpose, ErrDedicated, other.purpose)
	case other.purpose == "":
		return nil
	}
	s.log.Warn("what waits here was for something else, and is taken over", "was", other.purpose, "is", purpose)
	for _, sh := range s.shards() {
		if err := sh.Poll.Set(ctx, dedicationKey(s.lane), purpose, 0).Err(); err != nil {
			sh.Log.Debug("what the lane is for can't be noted", "err", err)
		}
	}
	return nil
}

// dedication is the purpose of a deliverer kind's timers.
type dedication struct {
	purpose string
	alive   bool // a node with the purpose announced itself lately
}

// dedications notes the purpose on shards without a purpose, and returns another purpose if found, first of all a
// purpose of live nodes.
func (s *Store) dedications(ctx context.Context, purpose string) (other dedication) {
	for _, sh := range s.shards() {
		found, err := s.dedication(ctx, sh, purpose)
		if err != nil {
			sh.Log.Debug("what the lane is for can't be seen", "err", err)
			continue
		}
		if found.purpose != purpose && (other.purpose == "" || found.alive) {
			other = found
		}
		if other.alive {
			break
		}
	}
	return other
}

func (s *Store) dedication(ctx context.Context, sh *shard.Shard, purpose string) (dedication, error) {
	if err := sh.Ready(ctx); err != nil {
		return dedication{}, err
	}
	pipe := sh.Poll.Pipeline() // a cluster has the keys in several slots
	pipe.SetNX(ctx, dedicationKey(s.lane), purpose, 0)
	is, now := pipe.Get(ctx, dedicationKey(s.lane)), pipe.Time(ctx)
	latest := pipe.ZRevRangeWithScores(ctx, nodesKey(s.lane), 0, 0)
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return dedication{}, sh.Unavailable(err)
	}
	found := dedication{purpose: is.Val()}
	for _, beat := range latest.Val() {
		found.alive = now.Val().Sub(time.UnixMilli(int64(beat.Score))) < timing.NodeLife
	}
	return found, nil
}
