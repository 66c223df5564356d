package deliveries

import (
	"encoding/base64"
	"hash/fnv"
	"strconv"
	"strings"

	"chronos/scheduler/store"
)

// A cursor is "query ms seq partition shard" in Base64, where query is a hash of the query.

const maxCursor = 512 // longer than any cursor

func cursor(p *store.LogPlace, mark string) string {
	text := queryHash(mark) + " " + strconv.FormatUint(p.Ms, 10) + " " + strconv.FormatUint(p.Seq, 10) + " " + strconv.Itoa(p.Partition) + " " + p.Shard
	return base64.RawURLEncoding.EncodeToString([]byte(text))
}

// parseCursor reads what cursor wrote for the same query. The error is store.ErrCursor.
func parseCursor(text, mark string) (p store.LogPlace, err error) {
	if len(text) > maxCursor {
		return p, store.ErrCursor
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return p, store.ErrCursor
	}
	const words = 5
	parts := strings.SplitN(string(raw), " ", words)
	if len(parts) != words || parts[0] != queryHash(mark) {
		return p, store.ErrCursor
	}
	ms, msErr := strconv.ParseUint(parts[1], 10, 64)
	seq, seqErr := strconv.ParseUint(parts[2], 10, 64)
	partition, partErr := strconv.ParseUint(parts[3], 10, 8)
	p = store.LogPlace{Ms: ms, Seq: seq, Partition: int(partition), Shard: parts[4]}
	if msErr != nil || seqErr != nil || partErr != nil || partition >= store.Partitions || p.Shard == "" || cursor(&p, mark) != text {
		return store.LogPlace{}, store.ErrCursor
	}
	return p, nil
}

func queryHash(mark string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(mark)) // never fails
	return strconv.FormatUint(h.Sum64(), 36)
}
