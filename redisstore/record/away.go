package record

import (
	"fmt"
	"strconv"
	"strings"

	"chronos/scheduler/store"
)

// Copies that missed the end are written as shard:rank,shard:rank; - for no copy.

func parseAway(text string) ([]store.Away, error) {
	var all []store.Away
	for part := range strings.SplitSeq(text, ",") {
		name, rank, _ := strings.Cut(part, ":")
		n, err := strconv.ParseUint(rank, 10, 8)
		if err != nil || name == "" {
			return nil, fmt.Errorf("%w: not shard:rank", ErrMalformed)
		}
		all = append(all, store.Away{Shard: name, Rank: int(n)})
	}
	return all, nil
}

// Away is how a call names the copies that missed the end.
func Away(all []store.Away) string {
	if len(all) == 0 {
		return "-"
	}
	return string(appendAway(nil, all))
}

func appendAway(b []byte, all []store.Away) []byte {
	for i, a := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(append(append(b, a.Shard...), ':'), int64(a.Rank), 10)
	}
	return b
}
