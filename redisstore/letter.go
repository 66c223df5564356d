package redisstore

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"chronos/redisstore/record"
	"chronos/redisstore/shard"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// storedLetter is a dead letter as a shard keeps it: `key reason record`, and when
// it was given up as its score.
type storedLetter struct {
	shard     *shard.Shard
	partition int
	score     float64
	text      string
}

// positionBytes is as much of a letter as says where it stands among those of the
// same millisecond. Two that agree so far are the same letter, on two shards.
const positionBytes = 256

// letterPosition is a place in the list of all letters: the newest first, and of
// one millisecond in reverse order of their texts. It is independent of shards and
// partitions.
type letterPosition struct {
	score  float64
	behind string // a dash and the begin of the letter before; "" before all of this score
}

func (l *storedLetter) position() letterPosition {
	return letterPosition{score: l.score, behind: "-" + l.text[:min(len(l.text), positionBytes)]}
}

// compare is negative if p comes before o.
func (p letterPosition) compare(o letterPosition) int {
	return cmp.Or(cmp.Compare(o.score, p.score), strings.Compare(o.behind, p.behind))
}

// formatScore writes a score without an exponent, as Redis does, if it is a time.
func formatScore(score float64) string {
	if math.Abs(score) < 1e15 {
		return strconv.FormatFloat(score, 'f', -1, 64)
	}
	return strconv.FormatFloat(score, 'g', -1, 64)
}

// cursor is the position as clients see it.
func (p letterPosition) cursor() string {
	return base64.RawURLEncoding.EncodeToString([]byte(formatScore(p.score) + " " + p.behind))
}

// maxCursor is longer than any that there can be.
const maxCursor = 4 * positionBytes

func parseLetterCursor(text string) (letterPosition, error) {
	if len(text) > maxCursor {
		return letterPosition{}, store.ErrCursor
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return letterPosition{}, store.ErrCursor
	}
	number, behind, ok := strings.Cut(string(raw), " ")
	score, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || math.IsNaN(score) || !strings.HasPrefix(behind, "-") || len(behind) > 1+positionBytes {
		return letterPosition{}, store.ErrCursor
	}
	return letterPosition{score: score, behind: behind}, nil
}

// letterID names a letter whatever shard it is on: when it was given up, by which
// it is found, its partition, and a hash of it.
type letterID struct {
	score     float64
	partition int
	hash      string
}

func (l *storedLetter) id() letterID {
	return letterID{score: l.score, partition: l.partition, hash: l.hash()}
}

func (l *storedLetter) hash() string {
	sum := sha256.Sum256([]byte(l.text))
	return hex.EncodeToString(sum[:8])
}

func (id letterID) String() string {
	return fmt.Sprintf("%s-%02d-%s", strconv.FormatUint(math.Float64bits(id.score), 36), id.partition, id.hash)
}

// parseLetterID reads what String wrote; false for anything else.
func parseLetterID(text string) (id letterID, ok bool) {
	parts := strings.Split(text, "-")
	if len(parts) != 3 || len(parts[2]) != 16 {
		return letterID{}, false
	}
	bits, err := strconv.ParseUint(parts[0], 36, 64)
	partition, perr := strconv.ParseUint(parts[1], 10, 8)
	id = letterID{score: math.Float64frombits(bits), partition: int(partition), hash: parts[2]}
	return id, err == nil && perr == nil && partition < Partitions && !math.IsNaN(id.score) && id.String() == text
}

// lastInstant is the last that has a year of four digits, in ms since 1970: who
// writes into a Redis by hand may have meant seconds, or nothing.
const lastInstant = 253402300799999

// read makes out what a letter says.
func (l *storedLetter) read() store.Letter {
	letter := store.Letter{
		ID: l.id().String(), Shard: l.shard.Name(), Text: l.text,
		At: time.UnixMilli(int64(min(max(l.score, 0), lastInstant))).UTC(),
	}
	word, rest, _ := strings.Cut(l.text, " ")
	reason, text, ok := strings.Cut(rest, " ")
	key, err := record.Unescape(word)
	if err != nil || !timer.ValidKey(key) {
		letter.Err = fmt.Errorf("%w: it does not begin with a timer's key", store.ErrUnreadable)
		return letter
	}
	letter.Key = key
	if letter.Reason, err = record.Unescape(reason); err != nil || !ok {
		letter.Reason, letter.Err = "", fmt.Errorf("%w: no reason and record follow the key", store.ErrUnreadable)
		return letter
	}
	rec, err := record.Parse(text)
	if err == nil && rec.State.Ended {
		err = fmt.Errorf("%w: no specification", record.ErrMalformed)
	}
	if err == nil {
		letter.Record, err = rec.Scheduled(key)
	}
	if err != nil {
		letter.Record, letter.Err = store.Record{}, fmt.Errorf("%w: %w", store.ErrUnreadable, err)
	}
	return letter
}
