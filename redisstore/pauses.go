package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"chronos/redisstore/record"
	"chronos/redisstore/shard"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

// Decide is store.Store's.
func (s *Store) Decide(ctx context.Context, name string, decisions []store.Decision) ([]store.Decision, error) {
	sh, err := s.shard(name)
	if err != nil {
		return nil, err
	}
	args := []any{timing.DecisionLife.Milliseconds(), timing.MaxClockAhead.Milliseconds(), store.MaxPauses, store.MaxDecisions}
	for i := range decisions {
		args = append(args, decisions[i].Destination, decisions[i].Stamp.String(), endOf(&decisions[i]))
	}
	c := &shard.Call{Script: "pause", Keys: []string{pausesKey(s.lane)}, Args: args}
	sh.Eval(ctx, sh.Poll, []*shard.Call{c})
	said, err := sh.Texts(c)
	if err != nil {
		return nil, err
	}
	if len(said) != len(decisions) {
		return nil, sh.Unavailable(fmt.Errorf("%w: %d decisions, want %d", shard.ErrReply, len(said), len(decisions)))
	}
	latest := make([]store.Decision, len(decisions))
	for i, text := range said {
		stamp, ends, _ := strings.Cut(text, " ")
		latest[i], _ = parseDecision(decisions[i].Destination, stamp, ends, c.NowUs) // a refused decision stays zero
	}
	return latest, nil
}

// endOf is the end of a pause in ms, 0 for the end of all pauses.
func endOf(d *store.Decision) int64 {
	if d.Until.IsZero() {
		return 0
	}
	return d.Until.UnixMilli()
}

// parseDecisions reads "destination stamp until_ms" again and again. Words that make no sense are left out.
func parseDecisions(text string, nowUs int64) (all []store.Decision) {
	words := strings.Split(text, " ")
	for i := 0; i+3 <= len(words) && len(all) < store.MaxDecisions; i += 3 {
		if d, ok := parseDecision(words[i], words[i+1], words[i+2], nowUs); ok {
			all = append(all, d)
		}
	}
	return all
}

func parseDecision(destination, stamp, ends string, nowUs int64) (store.Decision, bool) {
	made, stampErr := timer.ParseVersion(stamp)
	ms, endErr := strconv.ParseInt(ends, 10, 64)
	if stampErr != nil || endErr != nil || ms < 0 || len(destination) > store.MaxDestination {
		return store.Decision{}, false
	}
	d := store.Decision{Destination: destination, Stamp: made}
	if ms > 0 {
		d.Until, d.Left = time.UnixMilli(ms).UTC(), record.Milliseconds(ms-nowUs/1000)
	}
	return d, true
}
