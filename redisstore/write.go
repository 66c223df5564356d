package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"chronos/scheduler"
)

// Merge is scheduler.Store's. Writes of many callers go to a shard together.
func (s *Store) Merge(ctx context.Context, writes []scheduler.Write) []scheduler.Written {
	answers := make([]scheduler.Written, len(writes))
	type share struct {
		items   []*item
		writes  []*scheduler.Write
		answers []*scheduler.Written
	}
	shares := make(map[*shard]*share, 1)
	for i := range writes {
		home, hint := s.topology.home(writes[i].ID.Key)
		answers[i].ID = scheduler.ID{Key: writes[i].ID.Key, RF: writes[i].ID.RF, Hint: hint}
		answers[i].Shard, answers[i].Partition = home.name, partitionOf(writes[i].ID.Key)
		it, err := mergeItem(&writes[i])
		if err != nil {
			answers[i].Err = err
			continue
		}
		if shares[home] == nil {
			shares[home] = &share{}
		}
		shares[home].items = append(shares[home].items, it)
		shares[home].writes = append(shares[home].writes, &writes[i])
		shares[home].answers = append(shares[home].answers, &answers[i])
	}
	inParallel(shares, func(home *shard, sh *share) {
		err := s.mergers[home.name].submit(ctx, sh.items)
		for i, answer := range sh.answers {
			switch {
			case errors.Is(err, scheduler.ErrOverloaded):
				answer.Err = err
			case err != nil:
				answer.Err, answer.Unreached = fmt.Errorf("%w: shard %s: %w", scheduler.ErrUnavailable, home.name, err), 1
			default:
				readMerged(sh.items[i], sh.writes[i], answer)
			}
		}
	})
	return answers
}

// flushMerge sends what a batcher gathered. What the shard refused as too late
// was not executed, and goes once more with the clock learnt from the refusal.
//
// What ends timers stands last, and goes once more by itself if the shard's
// memory is full: a script that has removed something may write on, so that
// deletes work on a full shard, and creates behind a delete would.
func (s *Store) flushMerge(sh *shard, items []*item) {
	ctx, cancel := context.WithTimeout(context.Background(), s.patience)
	defer cancel()
	script := itemScript{
		name: "merge", keys: partitionKeys.three, replies: 1,
		head: func() []any { return []any{sh.clock.in(notAfter)} },
	}
	slices.SortStableFunc(items, func(a, b *item) int { return cmp.Compare(a.ends, b.ends) })
	sh.evalItems(ctx, sh.front, &s.keys, script, items)
	var again []*item
	for _, it := range items {
		if errors.Is(it.err, errLate) || it.ends == 1 && redis.IsOOMError(it.err) {
			again = append(again, it)
		}
	}
	if len(again) > 0 {
		sh.evalItems(ctx, sh.front, &s.keys, script, again)
	}
}

// mergeItem is a write as the script takes it (lua/merge.lua): the record in two
// parts, between which the shard puts the start of its grid.
func mergeItem(w *scheduler.Write) (*item, error) {
	it := &item{partition: partitionOf(w.ID.Key)}
	if w.Timer == nil {
		it.ends = 1
		head := appendHead(nil, scheduler.State{Version: w.Version}, 0, rfOf(w))
		it.args = endArgs("gone", w.ID.Key, head, tailOfEnd(""), moreOf(w.Life, w.Keep, ""))
		return it, nil
	}
	tail, err := appendTail(make([]byte, 0, typicalRecord), w.Timer, w.BodyHash)
	if err != nil {
		return nil, err
	}
	it.bytes = len(tail)
	kind := "put"
	if w.BodyHash != "" {
		kind = "once"
	}
	state := scheduler.State{Version: w.Version, Seq: 1}
	it.args = liveArgs(kind, w.ID.Key, appendHead(nil, state, 0, rfOf(w)), tail, startOf(w.Timer, state.Seq), "")
	return it, nil
}

const typicalRecord = 256 // bytes

// start is when a grid begins, and when to look at the timer first.
type start struct {
	text string // ms from now, or, where a client gave one, an instant behind an @
	look int64  // ms from the start
}

func startOf(t *scheduler.Timer, seq int) start {
	interval := wholeMs(t.Interval)
	look := int64(seq) * interval
	if !t.At.IsZero() {
		return start{text: "@" + strconv.FormatInt(t.At.UnixMilli()-look, 10), look: look}
	}
	return start{text: strconv.FormatInt(interval-look, 10), look: look}
}

func liveArgs(kind, key string, head, tail []byte, from start, more string) []any {
	return []any{kind, key, head, tail, from.text, from.look, more}
}

func endArgs(kind, key string, head []byte, tail, more string) []any {
	return []any{kind, key, head, tail, "", "", more}
}

// moreOf is what few writes need.
func moreOf(life, keep time.Duration, token string) string {
	return strconv.FormatInt(wholeMs(life), 10) + " " + strconv.FormatInt(wholeMs(keep), 10) + " " + cmp.Or(token, "-")
}

func rfOf(w *scheduler.Write) int { return max(w.ID.RF, 1) }

// readMerged reads what the script answers to w.
func readMerged(it *item, w *scheduler.Write, answer *scheduler.Written) {
	if it.err != nil {
		answer.Err, answer.Unreached = it.err, 1
		return
	}
	r := reader{text: it.reply[0]}
	status := r.word()
	var dueMs int64
	if status == "new" {
		status = "stored"
		answer.State, answer.BodyHash = scheduler.State{Version: w.Version, Seq: 1}, w.BodyHash
		dueMs = r.int64() + wholeMs(w.Timer.Interval)
	} else {
		answer.State = r.state()
		answer.InFlight = r.int64() > 0
		dueMs = r.int64()
		answer.ID.RF = cmp.Or(int(r.int64()), answer.ID.RF) // 0 where nothing is
		if hash := r.word(); hash != "-" {
			answer.BodyHash = hash
		}
	}
	if r.err != nil {
		answer.Err, answer.Unreached = fmt.Errorf("%w: merge: %w", scheduler.ErrUnavailable, r.err), 1
		return
	}
	answer.Due = time.UnixMilli(dueMs).UTC()
	answer.Wait = until(dueMs, it.nowUs)
	switch status {
	case "stored":
		answer.Status, answer.Copies = scheduler.WriteStored, 1
	case "same":
		answer.Status, answer.Copies = scheduler.WriteSame, 1
	case "newer":
		answer.Status = scheduler.WriteNewer
	case "conflict":
		answer.Status = scheduler.WriteConflict
	case "factor":
		answer.Status = scheduler.WriteFactor
	case "exists":
		answer.Status, answer.Copies = scheduler.WriteExists, 1
	default:
		answer.Err = fmt.Errorf("%w: merge: %w: status %q", scheduler.ErrUnavailable, errReply, status)
	}
}

// Read is scheduler.Store's.
func (s *Store) Read(ctx context.Context, ids []scheduler.ID) []scheduler.ReadResult {
	results := make([]scheduler.ReadResult, len(ids))
	items := make(map[*shard][]*item, 1)
	indexes := make(map[*shard][]int, 1)
	for i, id := range ids {
		home, _ := s.topology.home(id.Key)
		items[home] = append(items[home], &item{partition: partitionOf(id.Key), args: []any{id.Key}})
		indexes[home] = append(indexes[home], i)
	}
	script := itemScript{name: "read", keys: partitionKeys.three, head: func() []any { return nil }, replies: 3}
	inParallel(items, func(home *shard, asked []*item) {
		home.evalItems(ctx, home.front, &s.keys, script, asked)
		for k, it := range asked {
			i := indexes[home][k]
			results[i] = s.readResult(ids[i].Key, it)
		}
	})
	return results
}

func (s *Store) readResult(key string, it *item) scheduler.ReadResult {
	if it.err != nil {
		return scheduler.ReadResult{Err: it.err}
	}
	raw, score, lease := it.reply[0], it.reply[1], it.reply[2]
	if raw == "" {
		return scheduler.ReadResult{Err: scheduler.ErrNotFound}
	}
	rec, err := parseRecord(raw)
	if err == nil {
		rec, err = rec.noteLease(lease)
	}
	if err != nil {
		return scheduler.ReadResult{Err: fmt.Errorf("read timer: %w", err)}
	}
	if rec.state.Ended {
		return scheduler.ReadResult{Record: scheduler.Record{ID: scheduler.ID{Key: key, RF: rec.rf}, State: rec.state}, Err: scheduler.ErrNotFound}
	}
	_, hint := s.topology.home(key)
	result := scheduler.ReadResult{Leased: lease != "", Due: time.UnixMilli(rec.dueMs()).UTC()}
	if result.Record, err = rec.scheduled(key, hint); err != nil {
		return scheduler.ReadResult{Err: fmt.Errorf("read timer: %w", err)}
	}
	if lookMs, err := strconv.ParseFloat(score, 64); err == nil {
		result.Look = time.UnixMilli(int64(lookMs)).UTC()
	}
	if rec.state.Attempt > 0 && !result.Leased {
		result.Due = result.Look
	}
	return result
}

// reader takes the words of a script's answer one by one and keeps the first
// error.
type reader struct {
	text string
	err  error
}

func (r *reader) word() string {
	word, rest, _ := strings.Cut(r.text, " ")
	if word == "" && r.err == nil {
		r.err = fmt.Errorf("%w: a word is missing", errReply)
	}
	r.text = rest
	return word
}

func (r *reader) int64() int64 {
	n, err := strconv.ParseInt(r.word(), 10, 64)
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("%w: not a whole number", errReply)
	}
	return n
}

// position is "version seq attempt", state adds "ended".
func (r *reader) position() scheduler.State {
	word := r.word()
	version, err := strconv.ParseUint(word, 16, 64)
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("%w: not a version", errReply)
	}
	return scheduler.State{Version: scheduler.Version(version), Seq: int(r.int64()), Attempt: int(r.int64())}
}

func (r *reader) state() scheduler.State {
	state := r.position()
	state.Ended = r.int64() == 1
	return state
}
