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

// storedLetter is a dead letter as a shard keeps the letter: `key reason record`, with the time of giving up as
// score.
type storedLetter struct {
	shard     *shard.Shard
	partition int
	score     float64
	text      string
}

// positionBytes is how much of a dead letter's text defines the letter's place among letters of the same
// millisecond. Two letters that agree so far are the same letter, on two shards.
const positionBytes = 256

// letterPosition is a place in the list of all dead letters: the newest first, and within one millisecond in reverse
// order of the texts. The position does not depend on shards and partitions.
type letterPosition struct {
	score  float64
	behind string // a dash and the beginning of the letter before; "" for a place before all letters of this score
}

func (l *storedLetter) position() letterPosition {
	return letterPosition{score: l.score, behind: "-" + l.text[:min(len(l.text), positionBytes)]}
}

// compare is negative if p comes before o.
func (p letterPosition) compare(o letterPosition) int {
	return cmp.Or(cmp.Compare(o.score, p.score), strings.Compare(o.behind, p.behind))
}

// within is the position for a reader of letters whose keys begin with prefix: the same such letters follow. The
// position shows nothing of another letter but the time.
func (p letterPosition) within(prefix string) letterPosition {
	text, behindOne := strings.CutPrefix(p.behind, "-")
	switch {
	case prefix == "", !behindOne, strings.HasPrefix(text, prefix), len(prefix) >= positionBytes:
		return p
	case text > prefix: // all letters of the prefix follow; keys have no character above ~
		return letterPosition{score: p.score, behind: "-" + prefix + "\x7f"}
	}
	return letterPosition{score: p.score, behind: "-"} // letters of this score that follow begin otherwise
}

// formatScore writes a score without an exponent, as Redis does, if it is a time.
func formatScore(score float64) string {
	if math.Abs(score) < 1e15 {
		return strconv.FormatFloat(score, 'f', -1, 64)
	}
	return strconv.FormatFloat(score, 'g', -1, 64)
}

// cursor is the position as clients see the position.
func (p letterPosition) cursor() string {
	return base64.RawURLEncoding.EncodeToString([]byte(formatScore(p.score) + " " + p.behind))
}

// maxCursor is longer than any possible cursor.
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

// letterID names a dead letter independently of the letter's shard: the time of giving up, by which the letter is
// found, the letter's partition, and a hash of the text.
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

// parseLetterID reads an ID that String wrote; false for any other text.
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

// lastInstant is the last instant with a year of four digits, in ms since 1970. Somebody who writes into a Redis by
// hand may have meant seconds, or nothing.
const lastInstant = 253402300799999

// read decodes the text of a dead letter.
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
