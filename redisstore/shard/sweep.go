package shard

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"chronos/redisstore/record"
	"chronos/scheduler/store"
)

// sweptKey is a hash on every shard with the progress of the shard's sweep, for every deliverer kind.
const sweptKey = "chronos:swept"

// Lanes are all possible deliverer kinds.
func Lanes() []string { return []string{"http", "kafka"} }

// identityFields hold the shard's process that the nodes of a deliverer kind have noticed, for every deliverer kind.
func identityFields() (all []string) {
	for _, lane := range Lanes() {
		all = append(all, lane+identityField)
	}
	return all
}

const identityField = ".identity"

func sweptField(lane string, partition int) string { return fmt.Sprintf("%s.%02d", lane, partition) }

// MarkSwept is store.Store's, for a deliverer kind.
func (s *Shard) MarkSwept(ctx context.Context, lane string, partition int, mark store.SweepMark) error {
	return s.noteSweep(ctx, lane, "mark", "", 0, partition, mark)
}

// WantSweep is store.Store's, for a deliverer kind.
func (s *Shard) WantSweep(ctx context.Context, lane string, missed time.Duration) error {
	if err := s.Ready(ctx); err != nil {
		return err
	}
	gap := s.gap.Load()
	if err := s.noteSweep(ctx, lane, "want", *s.identity.Load(), missed, 0, store.SweepMark{}); err != nil {
		return err
	}
	s.gap.CompareAndSwap(gap, 0)
	return nil
}

func (s *Shard) noteSweep(ctx context.Context, lane, what, identity string, missed time.Duration, partition int, mark store.SweepMark) error {
	c := &Call{Script: "sweep", Keys: []string{sweptKey}, Args: []any{
		what, lane, store.Partitions, identity, missed.Milliseconds(), partition, mark.Epoch, mark.AtMs,
	}}
	s.Eval(ctx, s.Poll, []*Call{c})
	return c.Err
}

// Swept reads how far the sweep is. A shard has restarted or lost all data if the shard has another identity than
// the noted identity, or no noted identity.
func (s *Shard) Swept(ctx context.Context, lane string) (state store.SweepState, err error) {
	if err := s.Ready(ctx); err != nil {
		return state, err
	}
	fields := []string{lane + ".wanted_ms", lane + ".missed_since_ms", lane + identityField}
	for p := range store.Partitions {
		fields = append(fields, sweptField(lane, p))
	}
	pipe := s.Poll.Pipeline()
	now, found := pipe.Time(ctx), pipe.HMGet(ctx, sweptKey, fields...)
	if _, err := pipe.Exec(ctx); err != nil {
		return state, s.Unavailable(err)
	}
	text := func(i int) string {
		said, _ := found.Val()[i].(string) // nil for no text
		return said
	}
	number := func(text string) int64 {
		n, _ := strconv.ParseInt(text, 10, 64) // an unreadable number means a new sweep
		return n
	}
	state.NowMs, state.WantedMs = now.Val().UnixMilli(), number(text(0))
	if since := number(text(1)); since != 0 {
		state.Missed = max(record.Milliseconds(state.NowMs-since), 1)
	}
	if state.Restarted = text(2) != *s.identity.Load(); state.Restarted {
		state.Missed = max(state.Missed, time.Duration(s.gap.Load()))
	}
	for p := range state.Marks {
		epoch, at, _ := strings.Cut(text(3+p), " ")
		state.Marks[p] = store.SweepMark{Epoch: number(epoch), AtMs: number(at)}
	}
	return state, nil
}
