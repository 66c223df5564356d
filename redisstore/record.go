package redisstore

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

// A record is a head of fixed width, then words, then the specification of a live timer as
// JSON (lua/README.md, Record):
//
//	1L 01a1fb841564b7e9 00000000001 000 00 02 0000003600000 +01795221099878 tags=call=1 {json}
//
// The scripts write the instants of the shard's clock.
type record struct {
	state         timer.State
	rank, rf      int
	site          string
	away          []store.Away // shard:rank,…
	startMs       int64
	intervalMs    int64
	firingUntilMs int64
	leftOut       int
	failure       store.Failure // node:at_ms:reason
	tags          []timer.Tag
	bodyHash      string // of a request with an idempotency key
	body          string // JSON, "" of a tombstone
}

// stateWidth is how wide the format, the state's letter, version, sequence number and attempt
// are together, headWidth how wide the head is.
const stateWidth, headWidth = 35, 71

var errRecord = errors.New("malformed record")

// parseHead reads the head of a record. The specification, and who misses the end, are behind
// the head.
func parseHead(s string) (record, error) {
	if len(s) < headWidth {
		return record{}, fmt.Errorf("%w: shorter than a head", errRecord)
	}
	p := headParser{text: s}
	for _, i := range [...]int{2, 19, 31, 35, 38, 41, 55} {
		p.require(i, s[i] == ' ')
	}
	p.require(0, s[0] == '1')
	p.require(1, s[1] == 'L' || s[1] == 'T')
	p.require(56, s[56] == '+' || s[56] == '-')
	r := record{
		state: timer.State{Seq: int(p.number(20, 31)), Attempt: int(p.number(32, 35)), Ended: s[1] == 'T'},
		rank:  int(p.number(36, 38)), rf: int(p.number(39, 41)),
		intervalMs: p.number(42, 55), startMs: p.number(57, 71),
	}
	if s[56] == '-' {
		r.startMs = -r.startMs
	}
	version, err := timer.ParseVersion(s[3:19])
	p.require(3, err == nil)
	r.state.Version = version
	return r, p.err
}

// headParser keeps the first error.
type headParser struct {
	text string
	err  error
}

func (p *headParser) require(at int, right bool) {
	if !right && p.err == nil {
		p.err = fmt.Errorf("%w: byte %d of the head", errRecord, at+1)
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

func parseRecord(s string) (record, error) {
	r, err := parseHead(s)
	if err != nil {
		return record{}, err
	}
	words := s[headWidth:]
	if words != "" && words[0] != ' ' {
		return record{}, fmt.Errorf("%w: byte %d", errRecord, headWidth+1)
	}
	words, body, live := strings.Cut(words, " {")
	if live {
		r.body = s[len(s)-len(body)-1:]
	}
	if r.state.Ended != (r.body == "") {
		return record{}, fmt.Errorf("%w: a live record has a specification, a tombstone has none", errRecord)
	}
	if words == "" {
		return r, nil
	}
	for word := range strings.SplitSeq(words[1:], " ") {
		if err := readWord(&r, word); err != nil {
			return record{}, err
		}
	}
	return r, nil
}

func field(s string) string {
	if s == "" {
		return "-"
	}
	if s == "-" {
		return "%2D"
	}
	return strings.ReplaceAll(url.QueryEscape(s), "+", "%20")
}

// unescape reads what field wrote.
func unescape(s string) (string, error) {
	if s == "-" {
		return "", nil
	}
	return url.QueryUnescape(s)
}

func formatTags(tags []timer.Tag) string {
	parts := make([]string, len(tags))
	for i, t := range tags {
		parts[i] = field(t.Type) + "=" + strconv.Itoa(t.Count)
	}
	return strings.Join(parts, ",")
}

// readWord takes in a word behind the head. Its error names the word, and does not repeat what may
// be a client's secret.
func readWord(r *record, word string) (err error) {
	name, value, _ := strings.Cut(word, "=")
	switch name {
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
		r.bodyHash, err = unescape(value)
	case "away":
		r.away, err = parseAway(value)
	case "site":
		r.site, err = unescape(value)
	default:
		return fmt.Errorf("%w: a word that is not known", errRecord)
	}
	if err != nil || value == "" {
		return fmt.Errorf("%w: %s=", errRecord, name)
	}
	return nil
}

// noteLease takes in what a passed fence has noted in the lease:
//
//	node:counter:taken_ms foreign_ms mark_ms seq attempt left
func (r record) noteLease(lease string) (record, error) {
	fields := strings.Split(lease, " ")
	if len(fields) == 1 {
		return r, nil
	}
	var noted [4]int64
	for i := range noted {
		n, err := int64(0), errRecord
		if len(fields) == 6 {
			n, err = wholeNumber(fields[2+i])
		}
		if err != nil {
			return r, fmt.Errorf("%w: its lease", errRecord)
		}
		noted[i] = n
	}
	r.firingUntilMs, r.state.Seq, r.state.Attempt, r.leftOut = noted[0], int(noted[1]), int(noted[2]), int(noted[3])
	return r, nil
}

// wholeNumber reads digits, and nothing else: the scripts take digits alone.
func wholeNumber(s string) (int64, error) {
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil {
		return 0, errRecord
	}
	return int64(n), nil
}

func parseFailure(s string) (store.Failure, error) {
	node, rest, _ := strings.Cut(s, ":")
	at, reason, ok := strings.Cut(rest, ":")
	ms, err := strconv.ParseInt(at, 10, 64)
	text, uerr := unescape(reason)
	if !ok || node == "" || err != nil || uerr != nil {
		return store.Failure{}, errRecord
	}
	return store.Failure{Node: node, At: time.UnixMilli(ms).UTC(), Reason: text}, nil
}

func parseTags(s string) (tags []timer.Tag, err error) {
	for part := range strings.SplitSeq(s, ",") {
		name, count, _ := strings.Cut(part, "=")
		n, err := strconv.Atoi(count)
		typ, uerr := url.QueryUnescape(name)
		if err != nil || uerr != nil || n < 1 || typ == "" {
			return nil, errRecord
		}
		tags = append(tags, timer.Tag{Type: typ, Count: n})
	}
	return tags, nil
}

// appendState appends how a record of the state begins.
func appendState(b []byte, state timer.State) []byte {
	letter := "1L "
	if state.Ended {
		letter = "1T "
	}
	b = append(state.Version.Append(append(b, letter...)), ' ')
	return appendPadded(append(appendPadded(b, int64(state.Seq), 11), ' '), int64(state.Attempt), 3)
}

// appendPadded appends a number that is not negative with leading zeros.
func appendPadded(b []byte, n int64, width int) []byte {
	at := len(b)
	b = append(b, "00000000000000"[:width]...)
	for i := at + width - 1; i >= at; i-- {
		b[i], n = '0'+byte(n%10), n/10
	}
	return b
}

// appendHead appends the head of a record, up to where the start of the grid stands.
func appendHead(b []byte, w *store.Write) []byte {
	interval := int64(0)
	if w.Timer != nil {
		interval = wholeMs(w.Timer.Interval)
	}
	b = append(appendState(b, w.State), ' ')
	b = append(appendPadded(b, int64(w.Rank), 2), ' ')
	b = append(appendPadded(b, int64(max(w.RF, 1)), 2), ' ')
	return append(appendPadded(b, interval, 13), ' ')
}

func appendStart(b []byte, ms int64) []byte {
	if ms < 0 {
		return appendPadded(append(b, '-'), -ms, 14)
	}
	return appendPadded(append(b, '+'), ms, 14)
}

// appendRest appends what follows the head: words, and the specification of a live timer.
func appendRest(b []byte, w *store.Write) ([]byte, error) {
	if !w.Failure.IsZero() {
		b = appendFailure(append(b, " failure="...), w.Failure)
	}
	if w.LeftOut > 0 && !w.State.Ended {
		b = strconv.AppendInt(append(b, " left="...), int64(w.LeftOut), 10)
	}
	if w.Timer != nil && len(w.Timer.Tags) > 0 {
		b = append(append(b, " tags="...), formatTags(w.Timer.Tags)...)
	}
	if w.BodyHash != "" {
		b = append(append(b, " hash="...), field(w.BodyHash)...)
	}
	if w.State.Ended && len(w.Away) > 0 { // only an end names who has not heard
		b = appendAway(append(b, " away="...), w.Away)
	}
	if w.State.Ended || w.Timer == nil || w.Kind == store.WriteNext || w.Kind == store.WriteRank {
		return b, nil
	}
	return appendSpecification(append(b, ' '), w.Timer)
}

// appendFailure appends node:at_ms:reason, with an @ for the shard to put its time in place of.
func appendFailure(b []byte, f store.Failure) []byte {
	b = append(append(b, f.Node...), ':')
	if f.At.IsZero() {
		b = append(b, '@')
	} else {
		b = strconv.AppendInt(b, f.At.UnixMilli(), 10)
	}
	return append(append(b, ':'), field(f.Reason)...)
}

// scheduled is the record as the scheduler sees it. The key is checked like the rest
// of what Redis holds: callbacks send it in a header.
func (r record) scheduled(key string) (store.Record, error) {
	if !timer.ValidKey(key) {
		return store.Record{}, fmt.Errorf("%w: its key can't be a timer's", errRecord)
	}
	out := store.Record{
		ID: timer.ID{Key: key, RF: r.rf}, State: r.state, Rank: r.rank, Site: r.site,
		Start: time.UnixMilli(r.startMs).UTC(), Failure: r.failure, LeftOut: r.leftOut, BodyHash: r.bodyHash, Away: r.away,
	}
	if r.state.Ended {
		return out, nil
	}
	var err error
	out.Timer, err = r.timer()
	return out, err
}

// dueMs is when the next pop is due on this copy's grid, without its rank's
// skew.
func (r record) dueMs() int64 { return r.startMs + int64(r.state.Seq)*r.intervalMs }

// milliseconds is the one way from wire numbers to durations; what a duration
// can't hold becomes the longest one.
func milliseconds(ms int64) time.Duration {
	const longest = int64(1<<63-1) / int64(time.Millisecond)
	return time.Duration(min(max(ms, -longest), longest)) * time.Millisecond
}

// until is how long after nowUs the instant ms is, negative if before it; what a
// duration can't hold becomes the longest one.
func until(ms, nowUs int64) time.Duration {
	const ages, longest = int64(1<<63-1) / 2000, int64(1<<63-1) / int64(time.Microsecond)
	us := min(max(ms, -ages), ages)*1000 - nowUs
	return time.Duration(min(max(us, -longest), longest)) * time.Microsecond
}

// wholeMs rounds up: a timer is never early by a rounding.
func wholeMs(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// fits says whether a write's numbers are as wide as a head has room for: no timer that was
// validated has others.
func fits(w *store.Write) error {
	const digits11, digits13 = int64(1e11), int64(1e13)
	interval := int64(0)
	if w.Timer != nil {
		interval = wholeMs(w.Timer.Interval)
	}
	if int64(w.State.Seq) >= digits11 || w.State.Attempt >= 1000 || w.Rank >= 100 || w.RF >= 100 || interval >= digits13 || min(w.State.Seq, w.State.Attempt, w.Rank, w.RF) < 0 {
		return fmt.Errorf("%w: a number is too large", errRecord)
	}
	return nil
}
