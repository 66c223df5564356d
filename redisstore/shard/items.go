package shard

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"chronos/scheduler/store"
)

// MaxItems is how many timers one script call takes: a shard does nothing else during a call.
const MaxItems = 500

// Item is a question to a script about one timer, and the answer.
type Item struct {
	Partition int
	Ends      int // 1 if the item ends a timer
	Args      []any
	Bytes     int // of the largest arguments in Args

	NowUs int64
	Reply []string
	Err   error
}

// ItemScript is a script that takes many items and answers every item with a fixed number of texts.
type ItemScript struct {
	Name    string
	Keys    *[store.Partitions][]string // by partition; calls share the keys, and change no key
	Head    func() []any                // arguments before the items
	Replies int
}

// EvalItems runs the script over all items in one round trip, with one call per partition and MaxItems.
func (s *Shard) EvalItems(ctx context.Context, client redis.UniversalClient, script ItemScript, items []*Item) {
	head := script.Head()
	var byPartition [store.Partitions][]*Item
	for _, it := range items {
		byPartition[it.Partition] = append(byPartition[it.Partition], it)
	}
	var calls []*Call
	var parts [][]*Item
	for p, all := range byPartition {
		for len(all) > 0 {
			part := all[:min(len(all), MaxItems)]
			all = all[len(part):]
			args := append(make([]any, 0, len(head)+len(part)*len(part[0].Args)), head...)
			for _, it := range part {
				args = append(args, it.Args...)
			}
			calls = append(calls, &Call{Script: script.Name, Keys: script.Keys[p], Args: args})
			parts = append(parts, part)
		}
	}
	s.Eval(ctx, client, calls)
	for i, c := range calls {
		s.distribute(c, parts[i], script.Replies)
	}
}

func (s *Shard) distribute(c *Call, items []*Item, replies int) {
	if c.Err == nil && len(c.Reply) != len(items)*replies {
		c.Err = s.Unavailable(fmt.Errorf("%w: %d texts for %d items", ErrReply, len(c.Reply), len(items)))
	}
	for i, it := range items {
		it.NowUs, it.Err = c.NowUs, c.Err
		if it.Err == nil {
			it.Reply, it.Err = texts(c.Reply, i*replies, replies)
		}
	}
}
