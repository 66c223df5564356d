package deliveries

import (
	"encoding/base64"
	"hash/fnv"
	"strconv"
	"strings"

	"chronos/scheduler/store"
)

// A cursor is "check ms seq partition shard" in Base64, where check is a hash of the rest and of the query.

const maxCursor = 512 // longer than any cursor

func cursor(p *store.LogPlace, mark string) string {
	place := strconv.FormatUint(p.Ms, 10) + " " + strconv.FormatUint(p.Seq, 10) + " " + strconv.Itoa(p.Partition) + " " + p.Shard
	return base64.RawURLEncoding.EncodeToString([]byte(checkOf(place, mark) + " " + place))
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
	check, place, _ := strings.Cut(string(raw), " ")
	const words = 4
	parts := strings.SplitN(place, " ", words)
	if len(parts) != words || check != checkOf(place, mark) {
		return p, store.ErrCursor
	}
	ms, msErr := strconv.ParseUint(parts[0], 10, 64)
	seq, seqErr := strconv.ParseUint(parts[1], 10, 64)
	partition, partErr := strconv.ParseUint(parts[2], 10, 8)
	if msErr != nil || seqErr != nil || partErr != nil || partition >= store.Partitions || parts[3] == "" {
		return p, store.ErrCursor
	}
	return store.LogPlace{Ms: ms, Seq: seq, Partition: int(partition), Shard: parts[3]}, nil
}

func checkOf(place, mark string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(place + "\n" + mark)) // never fails
	return strconv.FormatUint(h.Sum64(), 36)
}
