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

	"chronos/redisstore/record"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// Merge is store.Store's: group commit, by a batcher for each shard.
func (s *Store) Merge(ctx context.Context, writes []store.Write) []store.Written {
	answers := make([]store.Written, len(writes))
	items := s.mergeItems(writes, answers)
	shares := s.share(items, func(i int) (string, *error) { return writes[i].Shard, &answers[i].Err })
	for at := range shares {
		to := &shares[at]
		to.job, to.err = to.merger.submit(ctx, to.items)
	}
	for at := range shares {
		to := &shares[at]
		if to.err == nil {
			to.err = to.job.wait()
		}
		for k, i := range to.indexes {
			switch {
			case errors.Is(to.err, timer.ErrOverloaded):
				answers[i].Err = to.err
			case to.err != nil:
				answers[i].Err = fmt.Errorf("%w: shard %s: %w", timer.ErrUnavailable, to.name, to.err)
			default:
				to.readMerged(to.items[k], &answers[i])
			}
		}
	}
	return answers
}

// Tell is store.Store's.
func (s *Store) Tell(ctx context.Context, shard string, writes []store.Write) []store.Written {
	sh, err := s.shard(shard)
	if err != nil {
		return slices.Repeat([]store.Written{{Err: err}}, len(writes))
	}
	answers := make([]store.Written, len(writes))
	items := s.mergeItems(writes, answers)
	sh.evalItems(ctx, sh.ask, &s.keys, s.mergeScript(sh), slices.DeleteFunc(slices.Clone(items), func(it *item) bool { return it == nil }))
	for i, it := range items {
		if it != nil {
			sh.readMerged(it, &answers[i])
		}
	}
	return answers
}

// flushMerge sends what a batcher gathered. What the shard refused as too late
// was not executed, and goes once more with the clock learnt from the refusal, unless it
// is too late: this process may have been stopped.
//
// What ends timers stands last, and goes once more by itself if the shard's
// memory is full: a script that has removed something may write on, so that
// deletes work on a full shard, and creates behind a delete would.
func (s *Store) flushMerge(sh *shard, items []*item) {
	begun := time.Now()
	ctx, cancel := s.awake.WithTimeout(context.Background(), s.patience)
	defer cancel()
	script := s.mergeScript(sh)
	slices.SortStableFunc(items, func(a, b *item) int { return cmp.Compare(a.ends, b.ends) })
	sh.evalItems(ctx, sh.front, &s.keys, script, items)
	var again []*item
	for _, it := range items {
		if errors.Is(it.err, errLate) && time.Since(begun) < s.notAfter || it.ends == 1 && redis.IsOOMError(it.err) {
			again = append(again, it)
		}
	}
	if len(again) > 0 {
		sh.evalItems(ctx, sh.front, &s.keys, script, again)
	}
}

func (s *Store) mergeScript(sh *shard) itemScript {
	return itemScript{
		name: "merge", keys: partitionKeys.merge, replies: 1,
		head: func() []any { return []any{sh.clock.in(s.notAfter)} },
	}
}

// mergeItems are the writes as the script takes them (lua/merge.lua). What can't be written
// has an error instead.
func (s *Store) mergeItems(writes []store.Write, answers []store.Written) []*item {
	items := make([]*item, len(writes))
	var encoder record.Encoder
	for i := range writes {
		args, bytes, err := encoder.Merge(writes, i)
		if err != nil {
			answers[i].Err = err
			continue
		}
		it := &item{partition: partitionOf(writes[i].Key), args: args, bytes: bytes}
		if kind := writes[i].Kind; kind == store.WriteGone || kind == store.WriteBury {
			it.ends = 1
		}
		answers[i].Partition = it.partition
		items[i] = it
	}
	return items
}

// readMerged reads what the script answers.
func (s *shard) readMerged(it *item, answer *store.Written) {
	readMerged(it, answer)
	if answer.Err == nil {
		answer.Firing = max(answer.Firing, s.quiet())
	}
}

func readMerged(it *item, answer *store.Written) {
	if it.err != nil {
		answer.Err = it.err
		return
	}
	r := reader{text: it.reply[0]}
	status := r.word()
	if answer.Status = writeStatus(status); answer.Status == store.WriteNone && r.text == "" {
		return
	}
	answer.New, answer.Firing, answer.BodyHash = status == "made", record.Milliseconds(r.int64()), r.field()
	there := r.head()
	if r.err != nil || answer.Status == store.WriteFailed {
		answer.Status, answer.Err = store.WriteFailed, fmt.Errorf("%w: merge: %w: %q", timer.ErrUnavailable, errReply, status)
		return
	}
	answer.State, answer.RF = there.State, there.RF
	if answer.Status == store.WriteNone {
		return
	}
	answer.Due = time.UnixMilli(there.DueMs()).UTC()
	answer.Wait = record.Until(there.DueMs(), it.nowUs)
}

// writeStatus reads what the script did; WriteFailed stands for any other word.
func writeStatus(word string) store.WriteStatus {
	if word == "made" {
		return store.WriteStored
	}
	words := [...]string{
		store.WriteStored: "stored", store.WriteSame: "same", store.WriteNewer: "newer", store.WriteConflict: "conflict",
		store.WriteFactor: "factor", store.WriteExists: "exists", store.WriteLeased: "leased", store.WriteLost: "lost",
		store.WriteNone: "none", store.WriteOlder: "older",
	}
	return store.WriteStatus(max(slices.Index(words[:], word), 0))
}

// Read is store.Store's.
func (s *Store) Read(ctx context.Context, spots []store.Spot) []store.ReadResult {
	results, items := make([]store.ReadResult, len(spots)), make([]*item, len(spots))
	for i, spot := range spots {
		items[i] = &item{partition: partitionOf(spot.Key), args: []any{spot.Key}}
	}
	script := itemScript{name: "read", keys: partitionKeys.three, head: func() []any { return nil }, replies: 3}
	shares := s.share(items, func(i int) (string, *error) { return spots[i].Shard, &results[i].Err })
	scatter(shares, func(_ int, from share) {
		from.evalItems(ctx, from.front, &s.keys, script, from.items)
		for k, i := range from.indexes {
			results[i] = readResult(spots[i].Key, from.items[k])
		}
	})
	return results
}

func readResult(key string, it *item) store.ReadResult {
	if it.err != nil {
		return store.ReadResult{Err: it.err}
	}
	raw, score, lease := it.reply[0], it.reply[1], it.reply[2]
	if raw == "" {
		return store.ReadResult{Err: timer.ErrNotFound}
	}
	rec, err := record.Parse(raw)
	if err == nil {
		rec, err = rec.NoteLease(lease)
	}
	result := store.ReadResult{Leased: lease != "", Due: time.UnixMilli(rec.DueMs()).UTC()}
	if err == nil {
		result.Record, err = rec.Scheduled(key)
	}
	if err != nil {
		return store.ReadResult{Err: fmt.Errorf("read timer: %w", err)}
	}
	if rec.State.Ended {
		result.Err = timer.ErrNotFound
	}
	if lookMs, err := strconv.ParseFloat(score, 64); err == nil {
		result.Look, result.LookIn = time.UnixMilli(int64(lookMs)).UTC(), record.Until(int64(lookMs), it.nowUs)
	}
	if rec.State.Attempt > 0 && !result.Leased {
		result.Due = result.Look
	}
	result.DueIn = record.Until(rec.DueMs(), it.nowUs)
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

// field is a word that is - if it is empty.
func (r *reader) field() string {
	if word := r.word(); word != "-" {
		return word
	}
	return ""
}

func (r *reader) int64() int64 {
	n, err := strconv.ParseInt(r.word(), 10, 64)
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("%w: not a whole number", errReply)
	}
	return n
}

// head takes the rest, which is the head of a record.
func (r *reader) head() record.Record {
	rec, err := record.ParseHead(r.text)
	if err != nil && r.err == nil {
		r.err = err
	}
	return rec
}
