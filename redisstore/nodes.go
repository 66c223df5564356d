package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"chronos/redisstore/record"
	"chronos/redisstore/shard"
	"chronos/scheduler/store"
	"chronos/scheduler/timing"
)

// Beat is store.Store's. Beat uses a script: a shard whose memory is full takes a script's writes once the script
// has removed something.
func (s *Store) Beat(ctx context.Context, name string, own store.Announcement) (store.Announced, error) {
	sh, err := s.shard(name)
	if err != nil {
		return store.Announced{}, err
	}
	c := &shard.Call{
		Script: "beat", Keys: []string{nodesKey(s.lane), clocksKey(s.lane), pausesKey(s.lane), statusKey(s.lane)},
		Args: []any{
			s.node, timing.NodeLife.Milliseconds(), own.Clock.UnixMilli(), timing.MaxClockAhead.Milliseconds(), namesOf(own.Lacks),
			timing.DecisionLife.Milliseconds(), timing.StatusLife.Milliseconds(), own.Text, own.Format, flagOf(own.Guest),
		},
	}
	sh.Eval(ctx, sh.Poll, []*shard.Call{c})
	said, err := sh.Texts(c)
	if err != nil {
		return store.Announced{}, err
	}
	const ofOne = 3 // texts
	if len(said)%ofOne != 0 || len(said) == 0 {
		return store.Announced{}, sh.Unavailable(shard.ErrReply)
	}
	gap, gapErr := strconv.ParseInt(said[0], 10, 64)
	shows, clockErr := strconv.ParseInt(said[1], 10, 64)
	if err := errors.Join(gapErr, clockErr); err != nil {
		return store.Announced{}, sh.Unavailable(fmt.Errorf("%w: %w", shard.ErrReply, err))
	}
	sh.LeftAlone(record.Milliseconds(gap))
	sh.Announced(gap < 0)
	heard := store.Announced{Fastest: time.UnixMilli(shows), Decisions: parseDecisions(said[2], c.NowUs)}
	for i := ofOne; i < len(said); i += ofOne {
		format, err := strconv.Atoi(said[i+2])
		if err != nil {
			return store.Announced{}, sh.Unavailable(fmt.Errorf("%w: %w", shard.ErrReply, err))
		}
		heard.Nodes = append(heard.Nodes, store.LiveNode{Name: said[i], Lacks: parseNames(said[i+1]), Format: format})
	}
	return heard, nil
}

func flagOf(set bool) int {
	if set {
		return 1
	}
	return 0
}

// Told is store.Store's.
func (s *Store) Told(ctx context.Context, name string) (map[string]store.Told, error) {
	sh, err := s.readyShard(ctx, name)
	if err != nil {
		return nil, err
	}
	pipe := sh.Poll.Pipeline()
	now, texts := pipe.Time(ctx), pipe.HGetAll(ctx, statusKey(s.lane))
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, sh.Unavailable(err)
	}
	told := make(map[string]store.Told, len(texts.Val()))
	for node, text := range texts.Val() {
		var atMs int64
		if _, err := fmt.Sscanf(text, `{"at_ms":%d,`, &atMs); err != nil {
			continue // somebody has written something else
		}
		told[node] = store.Told{Text: text, Ago: record.Milliseconds(now.Val().UnixMilli() - atMs)}
	}
	return told, nil
}

// Names of shards are written with commas between the names; - for no name.

func namesOf(shards []string) string {
	if len(shards) == 0 {
		return "-"
	}
	return strings.Join(shards, ",")
}

func parseNames(text string) []string {
	if text == "-" {
		return nil
	}
	return strings.Split(text, ",")
}

// Leave withdraws this node from the shard, so that nobody counts on the node, and nobody is shown the node.
func (s *Store) Leave(ctx context.Context, name string) error {
	sh, err := s.shard(name)
	if err != nil {
		return err
	}
	pipe := sh.Poll.Pipeline()
	pipe.ZRem(ctx, nodesKey(s.lane), s.node)
	pipe.HDel(ctx, statusKey(s.lane), s.node)
	if _, err := pipe.Exec(ctx); err != nil {
		return sh.Unavailable(err)
	}
	return nil
}

// Survey is store.Store's.
func (s *Store) Survey(ctx context.Context, name string) (store.Survey, error) {
	sh, err := s.readyShard(ctx, name)
	if err != nil {
		return store.Survey{}, err
	}
	pipe := sh.Poll.Pipeline()
	var counts, due, letters [Partitions]*redis.IntCmd
	now := strconv.FormatInt(sh.Clock.In(0), 10)
	var tombstones [Partitions]*redis.SliceCmd
	var firsts [Partitions]*redis.ZSliceCmd
	for p := range s.keys {
		counts[p], letters[p] = pipe.ZCard(ctx, s.keys[p].due), pipe.ZCard(ctx, s.keys[p].dead)
		due[p] = pipe.ZCount(ctx, s.keys[p].due, "-inf", now)
		tombstones[p] = pipe.HMGet(ctx, s.keys[p].tags, tombstonesField)
		firsts[p] = pipe.ZRangeWithScores(ctx, s.keys[p].due, 0, 0)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return store.Survey{}, sh.Unavailable(err)
	}
	var survey store.Survey
	at := sh.Clock.In(0)
	for p := range s.keys {
		// The two numbers are not of one moment.
		ended := min(max(tombstonesIn(tombstones[p]), 0), counts[p].Val())
		survey.Pending, survey.Tombstones = survey.Pending+counts[p].Val()-ended, survey.Tombstones+ended
		survey.Letters, survey.Due = survey.Letters+letters[p].Val(), survey.Due+due[p].Val()
		for _, first := range firsts[p].Val() {
			key, _ := first.Member.(string) // always a string
			overdue := record.Milliseconds(at - int64(first.Score))
			survey.Overdue = max(survey.Overdue, overdue)
			survey.First[p] = store.First{Key: key, Look: time.UnixMilli(int64(first.Score)), Overdue: overdue}
		}
	}
	return survey, nil
}

// tombstonesIn is a partition's number of tombstones, 0 if the partition has no number.
func tombstonesIn(said *redis.SliceCmd) int64 {
	for _, value := range said.Val() {
		if text, ok := value.(string); ok {
			n, _ := strconv.ParseInt(text, 10, 64) // text that is no number counts as 0
			return n
		}
	}
	return 0
}
