package redisstore

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"chronos/redisstore/record"
	"chronos/redisstore/shard"
	"chronos/scheduler/store"
)

// termsOf is what the script needs beside the outcome; "-" for a success that keeps nothing.
func termsOf(o *store.Settlement) any {
	if o.Outcome == store.OutcomeDone && o.Keep == 0 && len(o.Untold) == 0 && o.Reason == "" {
		return "-"
	}
	text := words(o.Lease.Found.ScoreMs, record.WholeMs(o.Delay), o.Offset.Milliseconds(), record.WholeMs(o.Keep))
	return append(text, " "+record.Away(o.Untold)+" "+record.Escape(o.Reason)...)
}

// Settle is store.Store's.
func (s *Store) Settle(ctx context.Context, name string, settlements []store.Settlement) []store.Settled {
	sh, err := s.shard(name)
	if err != nil {
		return slices.Repeat([]store.Settled{{Err: err}}, len(settlements))
	}
	results := make([]store.Settled, len(settlements))
	items := make([]*shard.Item, len(settlements))
	for i := range settlements {
		o := &settlements[i]
		items[i] = &shard.Item{Partition: o.Lease.Partition, Args: []any{
			o.Lease.Key, o.Lease.Token, o.Outcome.String(), cmp.Or(o.Lease.Found.Tags, "-"), s.withAttempt(termsOf(o), o),
		}}
	}
	script := shard.ItemScript{
		Name: "settle", Replies: 1, Keys: &s.calls.settle,
		Head: func() []any { return []any{s.settler()} },
	}
	sh.EvalItems(ctx, sh.Fire, shard.Batch{ItemScript: script, Items: items})
	for i, it := range items {
		results[i] = readSettled(it)
	}
	return results
}

// readSettled reads "ok" or "lost lease".
func readSettled(it *shard.Item) store.Settled {
	if it.Err != nil {
		return store.Settled{Err: it.Err}
	}
	status, lease, _ := strings.Cut(it.Reply[0], " ")
	settled := store.Settled{Accepted: status == "ok"}
	if !settled.Accepted && lease != "-" {
		settled.Holder = nodeOf(lease)
	}
	return settled
}

// settler names this node to the script, and says how many entries the log of deliveries keeps.
func (s *Store) settler() string {
	if s.logs == 0 {
		return s.node
	}
	return s.node + " " + strconv.Itoa(s.logs)
}
