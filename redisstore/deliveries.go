package redisstore

import (
	"context"
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

var _ store.LogStore = (*Store)(nil)

// deliveryLook is how many entries a script call looks at, at most: less than a millisecond of Redis' time.
const deliveryLook = 300

// withAttempt adds the attempt of a settlement to the terms. A repeated letter would leave a second entry, so the
// settlement that follows a letter has the attempt.
func (s *Store) withAttempt(terms any, o *store.Settlement) any {
	if s.logs == 0 || o.Attempt == nil || o.Outcome == store.OutcomeRelease || o.Outcome == store.OutcomeLetter {
		return terms
	}
	text := make([]byte, 0, 256)
	switch t := terms.(type) {
	case string:
		text = append(text, t...)
	case []byte:
		text = append(text, t...)
	}
	return appendAttempt(append(text, '\n'), o.Attempt)
}

// appendAttempt writes an attempt as the log keeps the attempt: "key version seq attempt node due_ms late_ms took_ms
// ok|failed destination result", with - for an unknown destination. The result goes to the end, spaces included.
func appendAttempt(b []byte, a *store.Attempt) []byte {
	b = append(append(b, a.Key...), ' ')
	b = append(a.State.Version.Append(b), ' ')
	for _, n := range [...]int64{int64(a.State.Seq), int64(a.State.Attempt)} {
		b = append(strconv.AppendInt(b, n, 10), ' ')
	}
	b = append(append(b, a.Node...), ' ')
	for _, n := range [...]int64{a.Due.UnixMilli(), a.Started.Sub(a.Due).Milliseconds(), a.Took.Milliseconds()} {
		b = append(strconv.AppendInt(b, n, 10), ' ')
	}
	if a.OK {
		b = append(b, "ok "...)
	} else {
		b = append(b, "failed "...)
	}
	destination := a.Destination
	if destination == "" || len(destination) > maxDestination {
		destination = "-"
	}
	b = append(appendPrintable(b, destination, '!'), ' ')
	return appendPrintable(b, a.Result[:min(len(a.Result), maxResult)], ' ')
}

// The longest destination and result, in bytes.
const (
	maxDestination = 1024
	maxResult      = 512
)

// appendPrintable writes a text with ? for each byte that is not ASCII from first to the tilde.
func appendPrintable(b []byte, text string, first byte) []byte {
	begin := len(b)
	b = append(b, text...)
	for i := begin; i < len(b); i++ {
		if b[i] < first || b[i] > '~' {
			b[i] = '?'
		}
	}
	return b
}

// readAttempt reads what appendAttempt wrote. The error wraps store.ErrUnreadable.
func readAttempt(text string) (store.Attempt, error) {
	const fields = 11
	words := strings.SplitN(text, " ", fields)
	if len(words) < fields || !timer.ValidKey(words[0]) || words[4] == "" {
		return store.Attempt{}, fmt.Errorf("%w: no attempt", store.ErrUnreadable)
	}
	var numbers [5]int64
	for i, word := range []string{words[2], words[3], words[5], words[6], words[7]} {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil || i < 2 && (n < 0 || n > math.MaxInt32) || n > lastInstant || n < firstInstant {
			return store.Attempt{}, fmt.Errorf("%w: number %d of the attempt is none", store.ErrUnreadable, i+1)
		}
		numbers[i] = n
	}
	version, err := timer.ParseVersion(words[1])
	if err != nil || words[8] != "ok" && words[8] != "failed" {
		return store.Attempt{}, fmt.Errorf("%w: no version, or no result", store.ErrUnreadable)
	}
	a := store.Attempt{
		Key: words[0], State: timer.State{Version: version, Seq: int(numbers[0]), Attempt: int(numbers[1])}, Node: printable(words[4]),
		Due: time.UnixMilli(numbers[2]).UTC(), Started: time.UnixMilli(numbers[2] + min(max(numbers[3], firstInstant-numbers[2]), lastInstant-numbers[2])).UTC(), Took: record.Milliseconds(max(numbers[4], 0)),
		OK: words[8] == "ok", Result: printable(words[10]), Destination: printable(words[9]),
	}
	if a.Destination == "-" {
		a.Destination = ""
	}
	return a, nil
}

func printable(text string) string { return string(appendPrintable(nil, text, ' ')) }

// firstInstant is the first instant with a year of four digits, in ms since 1970.
const firstInstant = -62167219200000

// Log is store.LogStore's: a call for the partition of the key, or for every partition.
func (s *Store) Log(ctx context.Context, name string, q store.LogQuery) (store.LogPage, error) {
	sh, err := s.shard(name)
	if err != nil {
		return store.LogPage{}, err
	}
	first, last := 0, Partitions-1
	if q.Key != "" {
		first = partitionOf(q.Key)
		last = first
	}
	calls := make([]*shard.Call, 0, Partitions)
	for p := first; p <= last; p++ {
		calls = append(calls, s.logCall(name, p, &q))
	}
	sh.Eval(ctx, sh.Poll, calls)
	pages := make([]store.LogPage, len(calls))
	for i, c := range calls {
		if pages[i], err = readLog(sh, first+i, c); err != nil {
			return store.LogPage{}, err
		}
	}
	page := store.MergeLog(pages)
	if q.Key == "" {
		page.Looked = len(page.Entries) // the rest is looked at once more
	}
	return page, nil
}

func (s *Store) logCall(name string, partition int, q *store.LogQuery) *shard.Call {
	from, since := "+", "-"
	if q.After != nil {
		from = position(q.After)
		here := store.LogPlace{Ms: q.After.Ms, Seq: q.After.Seq, Shard: name, Partition: partition}
		if here.Compare(*q.After) <= 0 {
			from = "(" + from
		}
	}
	if !q.Since.IsZero() {
		since = strconv.FormatInt(max(q.Since.UnixMilli(), 0), 10)
	}
	return &shard.Call{Script: "deliveries", Keys: []string{s.keys[partition].deliveries}, Args: []any{from, since, q.Key, min(max(q.Look, 1), deliveryLook)}}
}

func position(p *store.LogPlace) string {
	return strconv.FormatUint(p.Ms, 10) + "-" + strconv.FormatUint(p.Seq, 10)
}

func readLog(sh *shard.Shard, partition int, c *shard.Call) (page store.LogPage, err error) {
	const head = 3 // "more" or "end", the last position, how many
	all, err := sh.Texts(c)
	if err == nil && (len(all) < head || len(all)%2 != head%2) {
		err = sh.Unavailable(shard.ErrReply)
	}
	if err != nil {
		return page, err
	}
	place := func(text string) (p store.LogPlace) {
		ms, seq, _ := strings.Cut(text, "-")
		p = store.LogPlace{Shard: sh.Name(), Partition: partition}
		var wrong [2]error
		p.Ms, wrong[0] = strconv.ParseUint(ms, 10, 64)
		p.Seq, wrong[1] = strconv.ParseUint(seq, 10, 64)
		if wrong[0] != nil || wrong[1] != nil {
			err = sh.Unavailable(shard.ErrReply)
		}
		return p
	}
	if all[0] == "more" {
		until := place(all[1])
		page.Until = &until
	}
	page.Looked, _ = strconv.Atoi(all[2]) // the script writes a number
	for i := head; i < len(all); i += 2 {
		e := store.LogEntry{Place: place(all[i])}
		if e.Attempt, e.Err = readAttempt(all[i+1]); e.Err == nil && partitionOf(e.Attempt.Key) != partition {
			e.Attempt, e.Err = store.Attempt{}, fmt.Errorf("%w: the timer is not of the partition", store.ErrUnreadable)
		}
		page.Entries = append(page.Entries, e)
	}
	return page, err
}
