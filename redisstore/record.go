package redisstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// A record is a header of space-separated fields, then the specification as
// JSON:
//
//	version seq attempt rank rf site away start_ms interval_ms firing_until_ms failure tags body_hash {json}
//
// An empty field is "-". A tombstone has no specification. The scripts write
// the header, which is why nothing here does.
type record struct {
	state         timer.State
	rank, rf      int
	site          string
	away          []store.Away // shard:rank,…
	startMs       int64
	intervalMs    int64
	firingUntilMs int64
	failure       store.Failure // node:at_ms:reason
	tags          []timer.Tag
	bodyHash      string // of a request with an idempotency key
	body          string // JSON, "" of a tombstone
}

const recordFields = 13

var errRecord = errors.New("malformed record")

func parseRecord(s string) (record, error) {
	var parts [recordFields]string
	n, rest, more := 0, s, true
	for ; n < recordFields && more; n++ {
		parts[n], rest, more = strings.Cut(rest, " ")
	}
	if n < recordFields {
		return record{}, fmt.Errorf("%w: %d fields", errRecord, n)
	}
	p := fieldParser{fields: parts[:]}
	r := record{
		state:   timer.State{Version: p.version(0), Seq: p.int(1), Attempt: p.int(2)},
		rank:    p.int(3),
		rf:      p.int(4),
		site:    p.text(5),
		away:    p.away(6),
		startMs: p.int64(7), intervalMs: p.count(8), firingUntilMs: p.instant(9),
		failure:  p.failure(10),
		tags:     p.tags(11),
		bodyHash: p.text(12),
	}
	if more {
		r.body = rest
	}
	r.state.Ended = !strings.HasPrefix(r.body, "{")
	return r, p.err
}

// noteLease takes in what a passed fence has noted in the lease:
//
//	node:counter:taken_ms foreign_ms mark_ms seq attempt
func (r record) noteLease(lease string) (record, error) {
	fields := strings.Split(lease, " ")
	if len(fields) == 1 {
		return r, nil
	}
	if len(fields) != 5 {
		return r, fmt.Errorf("%w: lease of %d fields", errRecord, len(fields))
	}
	p := fieldParser{fields: fields}
	r.firingUntilMs, r.state.Seq, r.state.Attempt = p.count(2), p.int(3), p.int(4)
	return r, p.err
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
	if len(tags) == 0 {
		return "-"
	}
	parts := make([]string, len(tags))
	for i, t := range tags {
		parts[i] = field(t.Type) + "=" + strconv.Itoa(t.Count)
	}
	return strings.Join(parts, ",")
}

// fieldParser keeps the first error, so that parseRecord reads like the header.
type fieldParser struct {
	fields []string
	err    error
}

func (p *fieldParser) fail(i int, err error) {
	if p.err == nil {
		p.err = fmt.Errorf("%w: field %d: %w", errRecord, i+1, err)
	}
}

func (p *fieldParser) version(i int) timer.Version {
	v, err := timer.ParseVersion(p.fields[i])
	if err != nil {
		p.fail(i, err)
	}
	return v
}

func (p *fieldParser) int64(i int) int64 {
	n, err := strconv.ParseInt(p.fields[i], 10, 64)
	if err != nil || strings.HasPrefix(p.fields[i], "+") {
		p.fail(i, errors.New("not a whole number"))
	}
	return n
}

// count reads what is never negative: the scripts take digits alone there.
func (p *fieldParser) count(i int) int64 {
	n := p.int64(i)
	if n < 0 || strings.HasPrefix(p.fields[i], "-") {
		p.fail(i, errors.New("negative"))
	}
	return n
}

func (p *fieldParser) instant(i int) int64 {
	if p.fields[i] == "-" {
		return 0
	}
	return p.count(i)
}

func (p *fieldParser) int(i int) int { return int(p.count(i)) }

func (p *fieldParser) text(i int) string {
	s, err := unescape(p.fields[i])
	if err != nil || p.fields[i] == "" {
		p.fail(i, errors.New("empty or bad percent-encoding"))
	}
	return s
}

func (p *fieldParser) failure(i int) store.Failure {
	if p.fields[i] == "-" {
		return store.Failure{}
	}
	node, rest, _ := strings.Cut(p.fields[i], ":")
	at, reason, ok := strings.Cut(rest, ":")
	ms, err := strconv.ParseInt(at, 10, 64)
	text, uerr := unescape(reason)
	if !ok || node == "" || err != nil || uerr != nil {
		p.fail(i, errors.New("not node:at_ms:reason"))
		return store.Failure{}
	}
	return store.Failure{Node: node, At: time.UnixMilli(ms).UTC(), Reason: text}
}

func (p *fieldParser) away(i int) []store.Away {
	all, err := parseAway(p.fields[i])
	if err != nil {
		p.fail(i, err)
	}
	return all
}

func (p *fieldParser) tags(i int) []timer.Tag {
	if p.fields[i] == "-" {
		return nil
	}
	var tags []timer.Tag
	for part := range strings.SplitSeq(p.fields[i], ",") {
		name, count, _ := strings.Cut(part, "=")
		n, err := strconv.Atoi(count)
		typ, uerr := url.QueryUnescape(name)
		if err != nil || uerr != nil || n < 1 || typ == "" {
			p.fail(i, errors.New("not type=count"))
			return nil
		}
		tags = append(tags, timer.Tag{Type: typ, Count: n})
	}
	return tags
}

// specification is the JSON of a record: what the header doesn't hold, with
// defaults left out.
type specification struct {
	URI         string `json:"uri"`
	Opaque      string `json:"opaque,omitempty"`
	RepeatForMs int64  `json:"repeat_for_ms,omitempty"`
	AtMs        *int64 `json:"at_ms,omitempty"`
}

// plainSpecification reads what most specifications look like: as
// appendSpecification writes them, with strings that nothing is escaped in, and
// no more than those. Others are left to a JSON library.
func plainSpecification(body string) (spec specification, plain bool) {
	rest, ok := strings.CutPrefix(body, `{"uri":"`)
	if !ok {
		return specification{}, false
	}
	spec.URI, rest, ok = strings.Cut(rest, `"`)
	if opaque, found := strings.CutPrefix(rest, `,"opaque":"`); ok && found {
		spec.Opaque, rest, ok = strings.Cut(opaque, `"`)
	}
	if tail, found := strings.CutPrefix(rest, `,"repeat_for_ms":`); found {
		spec.RepeatForMs, rest, ok = cutInteger(tail, ok)
	}
	if tail, found := strings.CutPrefix(rest, `,"at_ms":`); found {
		var at int64
		at, rest, ok = cutInteger(tail, ok)
		spec.AtMs = &at
	}
	if !ok || rest != "}" || !utf8.ValidString(body) {
		return specification{}, false
	}
	special := func(c byte) bool { return c < ' ' || c == '\\' }
	for _, s := range [...]string{spec.URI, spec.Opaque} {
		for i := range len(s) {
			if special(s[i]) {
				return specification{}, false
			}
		}
	}
	return spec, true
}

// cutInteger cuts a JSON number without a fraction off the beginning of text.
func cutInteger(text string, ok bool) (n int64, rest string, still bool) {
	end := len(text) - len(strings.TrimLeft(text, "-0123456789"))
	n, err := strconv.ParseInt(text[:end], 10, 64)
	return n, text[end:], ok && err == nil && strconv.FormatInt(n, 10) == text[:end]
}

// appendSpecification appends the JSON of a timer. The error says that a string
// is not UTF-8.
func appendSpecification(b []byte, t *timer.Timer) ([]byte, error) {
	b, err := jsontext.AppendQuote(append(b, `{"uri":`...), t.Callback.URI)
	if err == nil && t.Callback.Opaque != "" {
		b, err = jsontext.AppendQuote(append(b, `,"opaque":`...), t.Callback.Opaque)
	}
	if err != nil {
		return nil, fmt.Errorf("encode specification: %w", err)
	}
	if ms := t.RepeatFor.Milliseconds(); ms != 0 {
		b = strconv.AppendInt(append(b, `,"repeat_for_ms":`...), ms, 10)
	}
	if !t.At.IsZero() {
		b = strconv.AppendInt(append(b, `,"at_ms":`...), t.At.UnixMilli(), 10)
	}
	return append(b, '}'), nil
}

// appendHead appends what stands before start_ms in a record.
func appendHead(b []byte, w *store.Write) []byte {
	b = w.State.Version.Append(b)
	seq := w.State.Seq
	if w.Kind == store.WriteLeave && w.State.Ended {
		seq = 0
	}
	for _, n := range [...]int{seq, w.State.Attempt, w.Rank, max(w.RF, 1)} {
		b = strconv.AppendInt(append(b, ' '), int64(n), 10)
	}
	b = append(b, " - "...)
	if w.Timer != nil {
		return append(b, '-') // only an end names who has not heard
	}
	return appendAway(b, w.Away)
}

// appendTail appends what stands behind start_ms in a record of a live timer.
func appendTail(b []byte, w *store.Write) ([]byte, error) {
	t := w.Timer
	b = strconv.AppendInt(b, wholeMs(t.Interval), 10)
	b = append(appendFailure(append(b, " - "...), w.Failure), ' ')
	b = append(append(b, formatTags(t.Tags)...), ' ')
	b = append(append(b, field(w.BodyHash)...), ' ')
	return appendSpecification(b, t)
}

// tailOfEnd is the tail of a write without a specification.
func tailOfEnd(w *store.Write) []byte {
	b := append(appendFailure([]byte("0 - "), w.Failure), " - "...)
	return append(b, field(w.BodyHash)...)
}

// appendFailure appends node:at_ms:reason, with an @ for the shard to put its
// time in place of.
func appendFailure(b []byte, f store.Failure) []byte {
	if f.IsZero() {
		return append(b, '-')
	}
	b = append(append(b, f.Node...), ':')
	if f.At.IsZero() {
		b = append(b, '@')
	} else {
		b = strconv.AppendInt(b, f.At.UnixMilli(), 10)
	}
	return append(append(b, ':'), field(f.Reason)...)
}

// timer is the specification of a live record as the client gave it.
func (r record) timer() (timer.Timer, error) {
	spec, plain := plainSpecification(r.body)
	if !plain {
		if err := json.Unmarshal([]byte(r.body), &spec); err != nil {
			return timer.Timer{}, fmt.Errorf("%w: specification is not valid JSON", errRecord)
		}
	}
	t := timer.Timer{
		Interval:          milliseconds(r.intervalMs),
		RepeatFor:         milliseconds(spec.RepeatForMs),
		ReplicationFactor: r.rf,
		Callback:          timer.Callback{URI: spec.URI, Opaque: spec.Opaque},
		Tags:              r.tags,
	}
	if spec.AtMs != nil {
		t.At = time.UnixMilli(*spec.AtMs).UTC()
	}
	return t, nil
}

// scheduled is the record as the scheduler sees it. The key is checked like the rest
// of what Redis holds: callbacks send it in a header.
func (r record) scheduled(key string) (store.Record, error) {
	if !timer.ValidKey(key) {
		return store.Record{}, fmt.Errorf("%w: its key can't be a timer's", errRecord)
	}
	out := store.Record{
		ID: timer.ID{Key: key, RF: r.rf}, State: r.state, Rank: r.rank, Site: r.site,
		Start: time.UnixMilli(r.startMs).UTC(), Failure: r.failure, BodyHash: r.bodyHash, Away: r.away,
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
