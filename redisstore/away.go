package redisstore

import (
	"fmt"
	"strconv"
	"strings"

	"chronos/scheduler/store"
)

// What is away is written as shard:rank,shard:rank; - for nothing.

func parseAway(text string) ([]store.Away, error) {
	var all []store.Away
	for part := range strings.SplitSeq(text, ",") {
		name, rank, _ := strings.Cut(part, ":")
		n, err := strconv.ParseUint(rank, 10, 8)
		if err != nil || name == "" {
			return nil, fmt.Errorf("%w: not shard:rank", errRecord)
		}
		all = append(all, store.Away{Shard: name, Rank: int(n)})
	}
	return all, nil
}

func appendAway(b []byte, all []store.Away) []byte {
	if len(all) == 0 {
		return append(b, '-')
	}
	for i, a := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(append(append(b, a.Shard...), ':'), int64(a.Rank), 10)
	}
	return b
}
