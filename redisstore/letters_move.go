package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"chronos/redisstore/shard"
	"chronos/redisstore/topology"
	"chronos/scheduler/awake"
	"chronos/scheduler/timer"
)

const (
	// moveTime is how long dead letters are moved before a shard is looked at; the next call moves the rest.
	moveTime = 4 * time.Second
	// moveMost and moveBytes are how many letters and bytes go together.
	moveMost  = 200
	moveBytes = 4 << 20
)

// emptyTwice is the time between two looks that must find a shard empty.
const emptyTwice = time.Second

// vacate moves the dead letters of a drained shard to another shard, and is nil if the shard is empty then.
func (s *Store) vacate(ctx context.Context, t *topology.Topology, name string) error {
	sh, err := s.shard(name)
	if err != nil {
		return err
	}
	if err := s.moveLetters(ctx, t, sh); err != nil {
		return err
	}
	if err := isEmpty(ctx, sh, t); err != nil {
		return err
	}
	if !awake.Sleep(ctx, emptyTwice) {
		return ctx.Err()
	}
	return isEmpty(ctx, sh, t)
}

// moveLetters moves the dead letters of a drained shard to shards that take timers: a letter goes to the first
// reachable owner of the letter's key. A letter is written to the owner, unchanged and with its time, before the
// letter is removed here. A repetition therefore finds the remaining letters, and harms no moved letter. A letter
// that somebody deletes at the same moment may stay.
func (s *Store) moveLetters(ctx context.Context, t *topology.Topology, from *shard.Shard) (err error) {
	bounded, cancel := context.WithTimeout(ctx, moveTime)
	defer cancel()
	for _, lane := range shard.Lanes() {
		for p, keys := range laneKeys(lane) {
			for moved := moveMost; moved > 0 && bounded.Err() == nil; {
				if moved, err = s.movePage(bounded, from, p, keys.dead); err != nil && bounded.Err() == nil {
					return t.Refuse("the dead letters of shard %s can't be moved (%v); try again, or remove it with force: what has no other copy is lost", from.Name(), err)
				}
			}
		}
	}
	return ctx.Err()
}

// movePage moves some letters of one partition, and returns how many.
func (s *Store) movePage(ctx context.Context, from *shard.Shard, partition int, dead string) (moved int, err error) {
	c := letterCall(dead, letterPosition{score: math.Inf(1)}, math.Inf(-1), moveMost, moveBytes)
	from.Eval(ctx, from.Poll, []*shard.Call{c})
	list := readLetters(from, partition, c)
	if list.err != nil || len(list.letters) == 0 {
		return 0, list.err
	}
	pipes, removal := map[*shard.Shard]redis.Pipeliner{}, make([]any, len(list.letters))
	for i, l := range list.letters {
		to, err := s.letterHome(ctx, &l)
		if err != nil {
			return 0, err
		}
		if pipes[to] == nil {
			pipes[to] = to.Poll.Pipeline()
		}
		pipes[to].ZAdd(ctx, dead, redis.Z{Score: l.score, Member: l.text})
		removal[i] = l.text
	}
	for to, pipe := range pipes {
		if _, err := pipe.Exec(ctx); err != nil {
			return 0, to.Unavailable(err)
		}
	}
	if err := from.Poll.ZRem(ctx, dead, removal...).Err(); err != nil {
		return 0, from.Unavailable(err)
	}
	return len(removal), nil
}

// letterHome is the shard to which a letter moves.
func (s *Store) letterHome(ctx context.Context, l *storedLetter) (*shard.Shard, error) {
	key, _, _ := strings.Cut(l.text, " ")
	var errs []error
	for _, name := range s.Rank(key) {
		sh, err := s.readyShard(ctx, name)
		if err == nil {
			return sh, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// isEmpty is nil if a shard has no copies and no dead letters of any deliverer kind.
func isEmpty(ctx context.Context, sh *shard.Shard, t *topology.Topology) error {
	if err := sh.Ready(ctx); err != nil {
		return t.RefuseUnseen(sh.Name(), err)
	}
	pipe := sh.Poll.Pipeline()
	var counts []*redis.IntCmd
	for _, lane := range shard.Lanes() {
		for _, keys := range laneKeys(lane) {
			counts = append(counts, pipe.ZCard(ctx, keys.due), pipe.ZCard(ctx, keys.dead))
		}
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("%w: shard %s: %w", timer.ErrUnavailable, sh.Name(), err)
	}
	copies, letters := int64(0), int64(0)
	for i, count := range counts {
		if i%2 == 0 {
			copies += count.Val()
		} else {
			letters += count.Val()
		}
	}
	switch {
	case copies > 0:
		return t.Refuse("shard %s still has %d copies of timers; wait until the sweep has moved them, or remove it with force: what has no other copy is lost", sh.Name(), copies)
	case letters > 0:
		return t.Refuse("shard %s still has %d dead letters, more than can be moved at once; try again, or remove it with force: they are lost", sh.Name(), letters)
	}
	return nil
}
