package redisstore

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// maxItems is how many timers one script call takes: a shard does nothing else
// meanwhile.
const maxItems = 500

// item is what a script is asked about one timer, and the answer.
type item struct {
	partition int
	ends      int // 1 if it ends a timer
	args      []any
	bytes     int // of what weighs most in args

	nowUs int64
	reply []string
	err   error
}

// itemScript is a script that takes many items and answers each with a fixed
// number of texts.
type itemScript struct {
	name    string
	keys    func(partitionKeys) []string
	head    func() []any // arguments before the items
	replies int
}

// evalItems runs the script over all items in one round trip, one call for each
// partition and maxItems.
func (s *shard) evalItems(ctx context.Context, client redis.UniversalClient, lane *[Partitions]partitionKeys,
	script itemScript, items []*item,
) {
	head := script.head()
	var byPartition [Partitions][]*item
	for _, it := range items {
		byPartition[it.partition] = append(byPartition[it.partition], it)
	}
	var calls []*call
	var parts [][]*item
	for p, all := range byPartition {
		for len(all) > 0 {
			part := all[:min(len(all), maxItems)]
			all = all[len(part):]
			args := append(make([]any, 0, len(head)+len(part)*len(part[0].args)), head...)
			for _, it := range part {
				args = append(args, it.args...)
			}
			calls = append(calls, &call{script: script.name, keys: script.keys(lane[p]), args: args})
			parts = append(parts, part)
		}
	}
	s.eval(ctx, client, calls)
	for i, c := range calls {
		s.distribute(c, parts[i], script.replies)
	}
}

func (s *shard) distribute(c *call, items []*item, replies int) {
	if c.err == nil && len(c.reply) != len(items)*replies {
		c.err = s.unavailable(fmt.Errorf("%w: %d texts for %d items", errReply, len(c.reply), len(items)))
	}
	for i, it := range items {
		it.nowUs, it.err = c.nowUs, c.err
		if it.err == nil {
			it.reply, it.err = texts(c.reply, i*replies, replies)
		}
	}
}
