package wire

import (
	"maps"
	"slices"
	"strconv"

	"chronos/scheduler/statistics"
)

// RenderStatistics is the body of the answer to a request for statistics, types in order.
func RenderStatistics(found *statistics.Sums) []byte {
	dst := []byte(`{"tags":{`)
	for i, typ := range slices.Sorted(maps.Keys(found.Tags)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendString(dst, typ), ':')
		dst = strconv.AppendInt(dst, found.Tags[typ], 10)
	}
	dst = append(dst, '}')
	if found.Truncated {
		dst = append(dst, `,"truncated":true`...)
	}
	if len(found.Incomplete) > 0 {
		dst = append(dst, `,"incomplete":`...)
		delim := byte('[')
		for _, shard := range found.Incomplete {
			dst = appendString(append(dst, delim), shard)
			delim = ','
		}
		dst = append(dst, ']')
	}
	return append(dst, '}')
}
