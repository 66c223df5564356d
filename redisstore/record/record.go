// Package record is the text of timers in Redis: the record that a shard keeps of a timer, what the
// scripts are told of a write, and the numbers and words in both (lua/README.md).
package record

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// Record is a timer as a shard keeps it: a head of fixed width, then words, then the specification of a live timer as
// JSON (lua/README.md, Record):
//
//	1L 01a1fb841564b7e9 00000000001 000 00 02 0000003600000 +01795221099878 tags=call=1 {json}
//
// The scripts write the instants of the shard's clock.
type Record struct {
	State         timer.State
	Rank, RF      int
	site          string
	away          []store.Away // copies that missed the end, shard:rank,…
	startMs       int64
	intervalMs    int64
	firingUntilMs int64
	leftOut       int
	failure       store.Failure // node:at_ms:reason
	tags          []timer.Tag
	bodyHash      string // of a request with an idempotency key
	body          string // JSON; "" of a tombstone
}

// The formats of records, digits.
const firstFormat, lastFormat = '0' + timer.FirstFormat, '0' + timer.LastFormat

// stateWidth is the width of the format, the state's letter, version, sequence number and attempt together;
// headWidth is the width of the head.
const stateWidth, headWidth = 35, 71

// ErrMalformed means an unreadable record.
var ErrMalformed = errors.New("malformed record")

// ParseHead reads a head alone, or a head and the word rev. The other words and the specification are behind the head.
func ParseHead(s string) (Record, error) {
	head, rev, revised := strings.Cut(s, " rev=")
	if len(head) > headWidth {
		return Record{}, fmt.Errorf("%w: longer than a head", ErrMalformed)
	}
	r, err := parseHead(head)
	if err == nil && revised {
		r.State.Rev, err = parseRevision(rev)
	}
	return r, err
}

func parseRevision(s string) (timer.Version, error) {
	rev, err := timer.ParseVersion(s)
	if err != nil || rev == 0 {
		return 0, fmt.Errorf("%w: rev=", ErrMalformed)
	}
	return rev, nil
}

// later reports whether a later chronos has written the record. A record of any format begins with a digit for the format, a
// letter for the state, and the version.
func later(s string) bool {
	if len(s) < 20 || s[0] <= lastFormat || s[0] > '9' || s[1] < 'A' || s[1] > 'Z' || s[2] != ' ' || s[19] != ' ' {
		return false
	}
	_, err := timer.ParseVersion(s[3:19])
	return err == nil
}

// parseHead reads the head with which the text begins.
func parseHead(s string) (Record, error) {
	if later(s) {
		return Record{}, timer.ErrUpgrading
	}
	if len(s) < headWidth {
		return Record{}, fmt.Errorf("%w: shorter than a head", ErrMalformed)
	}
	p := headParser{text: s}
	for _, i := range [...]int{2, 19, 31, 35, 38, 41, 55} {
		p.require(i, s[i] == ' ')
	}
	p.require(0, s[0] >= firstFormat && s[0] <= lastFormat)
	p.require(1, s[1] == 'L' || s[1] == 'T')
	p.require(56, s[56] == '+' || s[56] == '-')
	r := Record{
		State: timer.State{Seq: int(p.number(20, 31)), Attempt: int(p.number(32, 35)), Ended: s[1] == 'T'},
		Rank:  int(p.number(36, 38)), RF: int(p.number(39, 41)),
		intervalMs: p.number(42, 55), startMs: p.number(57, 71),
	}
	if s[56] == '-' {
		r.startMs = -r.startMs
	}
	version, err := timer.ParseVersion(s[3:19])
	p.require(3, err == nil)
	r.State.Version = version
	return r, p.err
}

// headParser keeps the first error.
type headParser struct {
	text string
	err  error
}

func (p *headParser) require(at int, right bool) {
	if !right && p.err == nil {
		p.err = fmt.Errorf("%w: byte %d of the head", ErrMalformed, at+1)
	}
}

func (p *headParser) number(from, to int) (n int64) {
	for i := from; i < to; i++ {
		digit := p.text[i] - '0'
		p.require(i, digit <= 9)
		n = 10*n + int64(digit)
	}
	return n
}

// Parse reads a record. Errors: ErrMalformed, and timer.ErrUpgrading for a later format.
func Parse(s string) (Record, error) {
	r, err := parseHead(s)
	if err != nil {
		return Record{}, err
	}
	words := s[headWidth:]
	if words != "" && words[0] != ' ' {
		return Record{}, fmt.Errorf("%w: byte %d", ErrMalformed, headWidth+1)
	}
	words, body, live := strings.Cut(words, " {")
	if live {
		r.body = s[len(s)-len(body)-1:]
	}
	if r.State.Ended != (r.body == "") {
		return Record{}, fmt.Errorf("%w: a live record has a specification, a tombstone has none", ErrMalformed)
	}
	if words == "" {
		return r, nil
	}
	for word := range strings.SplitSeq(words[1:], " ") {
		if err := readWord(&r, word); err != nil {
			return Record{}, err
		}
	}
	return r, nil
}

// readWord takes in a word behind the head. The error names the word, and does not repeat the value, which may be a
// client's secret.
func readWord(r *Record, word string) (err error) {
	name, value, _ := strings.Cut(word, "=")
	switch name {
	case "rev":
		r.State.Rev, err = parseRevision(value)
	case "mark":
		r.firingUntilMs, err = wholeNumber(value)
	case "left":
		var n int64
		n, err = wholeNumber(value)
		r.leftOut = int(n)
	case "failure":
		r.failure, err = parseFailure(value)
	case "tags":
		r.tags, err = parseTags(value)
	case "hash":
		r.bodyHash, err = Unescape(value)
	case "away":
		r.away, err = parseAway(value)
	case "site":
		r.site, err = Unescape(value)
	default:
		return fmt.Errorf("%w: a word that is not known", ErrMalformed)
	}
	if err != nil || value == "" {
		return fmt.Errorf("%w: %s=", ErrMalformed, name)
	}
	return nil
}

// NoteLease takes in the notes of a passed fence in the lease:
//
//	node:counter:taken_ms foreign_ms mark_ms seq attempt left
func (r Record) NoteLease(lease string) (Record, error) {
	fields := strings.Split(lease, " ")
	if len(fields) == 1 {
		return r, nil
	}
	var noted [4]int64
	for i := range noted {
		n, err := int64(0), ErrMalformed
		if len(fields) == 6 {
			n, err = wholeNumber(fields[2+i])
		}
		if err != nil {
			return r, fmt.Errorf("%w: its lease", ErrMalformed)
		}
		noted[i] = n
	}
	r.firingUntilMs, r.State.Seq, r.State.Attempt, r.leftOut = noted[0], int(noted[1]), int(noted[2]), int(noted[3])
	return r, nil
}

// wholeNumber reads digits only, as the scripts do.
func wholeNumber(s string) (int64, error) {
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil {
		return 0, ErrMalformed
	}
	return int64(n), nil
}

func parseFailure(s string) (store.Failure, error) {
	node, rest, _ := strings.Cut(s, ":")
	at, reason, ok := strings.Cut(rest, ":")
	ms, err := strconv.ParseInt(at, 10, 64)
	text, uerr := Unescape(reason)
	if !ok || node == "" || err != nil || uerr != nil {
		return store.Failure{}, ErrMalformed
	}
	return store.Failure{Node: node, At: time.UnixMilli(ms).UTC(), Reason: text}, nil
}

func parseTags(s string) (tags []timer.Tag, err error) {
	for part := range strings.SplitSeq(s, ",") {
		name, count, _ := strings.Cut(part, "=")
		n, err := strconv.Atoi(count)
		typ, uerr := url.QueryUnescape(name)
		if err != nil || uerr != nil || n < 1 || typ == "" {
			return nil, ErrMalformed
		}
		tags = append(tags, timer.Tag{Type: typ, Count: n})
	}
	return tags, nil
}

// Found is the record as a claim finds the record.
func (r Record) Found(scoreMs int64) store.Found {
	found := store.Found{
		ScoreMs: scoreMs, State: r.State, StartMs: r.startMs, IntervalMs: r.intervalMs, FiringUntilMs: r.firingUntilMs, LeftOut: r.leftOut,
	}
	if r.Rank == 0 && !r.State.Ended {
		found.Tags = formatTags(r.tags)
	}
	return found
}

// Scheduled is the record as the scheduler sees the record. The key is checked like all text from Redis: callbacks
// send the key in a header.
func (r Record) Scheduled(key string) (store.Record, error) {
	if !timer.ValidKey(key) {
		return store.Record{}, fmt.Errorf("%w: its key can't be a timer's", ErrMalformed)
	}
	out := store.Record{
		ID: timer.ID{Key: key, RF: r.RF}, State: r.State, Rank: r.Rank, Site: r.site,
		Start: time.UnixMilli(r.startMs).UTC(), Failure: r.failure, LeftOut: r.leftOut, BodyHash: r.bodyHash, Away: r.away,
	}
	if r.State.Ended {
		return out, nil
	}
	var err error
	out.Timer, err = r.timer()
	return out, err
}

// DueMs is when the next pop is due on this copy's grid, without the skew of the copy's rank.
func (r Record) DueMs() int64 { return r.startMs + int64(r.State.Seq)*r.intervalMs }
