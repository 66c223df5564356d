package redisstore

import (
	"context"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"chronos/redisstore/record"
	"chronos/redisstore/shard"
	"chronos/scheduler/store"
)

// The tag sums of a partition are fields of a hash, with types encoded as in records. The hash also has the number
// of tombstones. The scripts keep the hash in step with the records (lua/merge.lua, lua/settle.lua, lua/claim.lua).

// tombstonesField counts the tombstones of the partition. No type has this encoding.
const tombstonesField = "+"

// tagType is a type in the hash as the client gave the type. Text that the scripts did not write is made readable,
// since the text goes into metrics.
func tagType(field string) string {
	text, err := record.Unescape(field)
	if err != nil {
		text = field
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// Tags is store.Store's.
func (s *Store) Tags(ctx context.Context, name string, most int) (store.TagSums, error) {
	sh, err := s.readyShard(ctx, name)
	if err != nil {
		return store.TagSums{}, err
	}
	found, whole, err := tagHashes(ctx, sh, s.keys[:], most)
	if err != nil {
		return store.TagSums{}, err
	}
	sums := store.TagSums{ByType: map[string]int64{}, Partial: !whole}
	for _, hash := range found {
		for field, sum := range hash {
			if sum > 0 && field != tombstonesField {
				sums.ByType[tagType(field)] += sum
			}
		}
	}
	return sums, nil
}

// tagHashes reads the sums of partitions. Every partition gives at least most fields, or all fields if the partition
// has no more. whole reports that all fields were read.
func tagHashes(ctx context.Context, sh *shard.Shard, partitions []partitionKeys, most int) (found []map[string]int64, whole bool, err error) {
	found = make([]map[string]int64, len(partitions))
	cursors := make(map[int]uint64, len(partitions)) // of partitions with more fields
	for p := range partitions {
		found[p], cursors[p] = map[string]int64{}, 0
	}
	whole = true
	for len(cursors) > 0 {
		pipe, pages := sh.Poll.Pipeline(), make(map[int]*redis.ScanCmd, len(cursors))
		for p, cursor := range cursors {
			pages[p] = pipe.HScan(ctx, partitions[p].tags, cursor, "", int64(min(max(most, 1), maxTagPage)))
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return nil, false, sh.Unavailable(err)
		}
		for p, page := range pages {
			fields, next := page.Val()
			for i := 0; i+1 < len(fields); i += 2 {
				found[p][fields[i]], _ = strconv.ParseInt(fields[i+1], 10, 64) // text that is no number counts as 0
			}
			switch cursors[p] = next; {
			case next == 0:
				delete(cursors, p)
			case len(found[p]) >= most:
				whole = false
				delete(cursors, p)
			}
		}
	}
	return found, whole, nil
}

// maxTagPage is how many fields a Redis is asked for at once: the Redis does nothing else during a call.
const maxTagPage = 1000
