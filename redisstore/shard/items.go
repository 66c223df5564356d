package shard

import (
	"context"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"chronos/scheduler/store"
)

// MaxItems is how many timers one script call takes: a shard does nothing else during a call.
const MaxItems = 500

// Item is a question to a script about one timer, and the answer.
type Item struct {
	Partition int
	Reads     bool // the item changes nothing
	WhenFull  int  // 1 for a write that makes no timer: a Redis carries the write out though its memory is full
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

// Batch is items for one script.
type Batch struct {
	ItemScript

	Items []*Item
}

// EvalItems runs the scripts over their items in one round trip, with one call per script, partition and MaxItems. Items
// that make no timer have calls of their own, behind the others: Redis lets a script that has removed something write on
// while its memory is full, and a create must not be written so.
func (s *Shard) EvalItems(ctx context.Context, client redis.UniversalClient, batches ...Batch) {
	var calls []*Call
	var parts []Batch
	for _, b := range batches {
		if len(b.Items) == 0 {
			continue
		}
		head := b.Head()
		var byPartition [2][store.Partitions][]*Item
		for _, it := range b.Items {
			byPartition[it.WhenFull][it.Partition] = append(byPartition[it.WhenFull][it.Partition], it)
		}
		for full := range byPartition {
			for p := range byPartition[full] {
				for part := range slices.Chunk(byPartition[full][p], MaxItems) {
					calls, parts = append(calls, callOf(b.ItemScript, p, head, part)), append(parts, Batch{b.ItemScript, part})
				}
			}
		}
	}
	s.Eval(ctx, client, calls)
	for i, c := range calls {
		s.distribute(c, parts[i].Items, parts[i].Replies)
	}
}

func callOf(script ItemScript, partition int, head []any, items []*Item) *Call {
	c := &Call{Script: script.Name, Keys: script.Keys[partition], Items: len(items)}
	c.Args = append(make([]any, 0, len(head)+len(items)*len(items[0].Args)), head...)
	for _, it := range items {
		c.Args = append(c.Args, it.Args...)
		c.Bytes += it.Bytes
	}
	return c
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
