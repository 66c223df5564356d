package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"chronos/redisstore/record"
	"chronos/redisstore/shard"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// Merge is store.Store's: group commit, by a batcher for each shard.
func (s *Store) Merge(ctx context.Context, writes []store.Write) []store.Written {
	answers := make([]store.Written, len(writes))
	items := s.mergeItems(writes, answers)
	for i := range writes {
		if s.undecided(&writes[i], &answers[i]) {
			items[i] = nil
		}
	}
	shares := s.share(items, func(i int) (string, *error) { return writes[i].Shard, &answers[i].Err })
	gathered(ctx, shares, func(from *share, it *shard.Item, i int) {
		if from.err != nil {
			answers[i].Err = from.failure()
			return
		}
		readMerged(from.Shard, it, &answers[i])
		s.undecided(&writes[i], &answers[i]) // this call may have noticed the loss
	})
	return answers
}

// undecided answers a conditional write to a shard that has lost data lately: the shard may have lost the version that
// would refuse the write (rule "conditions"). The effect of a write that was sent before is unknown.
func (s *Store) undecided(w *store.Write, answer *store.Written) bool {
	if w.IfNewest == nil {
		return false
	}
	sh, err := s.shard(w.Shard)
	if err != nil || sh.Quiet() == 0 {
		return false
	}
	*answer = store.Written{Err: fmt.Errorf("%w: shard %s has lost data lately, and decides no condition", timer.ErrUnavailable, w.Shard)}
	return true
}

// Tell is store.Store's.
func (s *Store) Tell(ctx context.Context, name string, writes []store.Write) []store.Written {
	sh, err := s.shard(name)
	if err != nil {
		return slices.Repeat([]store.Written{{Err: err}}, len(writes))
	}
	answers := make([]store.Written, len(writes))
	items := s.mergeItems(writes, answers)
	sh.EvalItems(ctx, sh.Ask, shard.Batch{
		ItemScript: s.mergeScript(sh), Items: slices.DeleteFunc(slices.Clone(items), func(it *shard.Item) bool { return it == nil }),
	})
	for i, it := range items {
		if it != nil {
			readMerged(sh, it, &answers[i])
		}
	}
	return answers
}

// flush sends the items that a batcher gathered. A write that the shard refused as too late was not executed. The
// write goes once more with the clock learnt from the refusal, unless the write is too old: this process may have been
// stopped.
func (s *Store) flush(sh *shard.Shard, items []*shard.Item) {
	begun := time.Now()
	ctx, cancel := s.awake.WithTimeout(context.Background(), s.patience)
	defer cancel()
	merge, read := shard.Batch{ItemScript: s.mergeScript(sh)}, shard.Batch{ItemScript: s.readScript()}
	for _, it := range items {
		if it.Reads {
			read.Items = append(read.Items, it)
		} else {
			merge.Items = append(merge.Items, it)
		}
	}
	sh.EvalItems(ctx, sh.Front, merge, read)
	again := shard.Batch{ItemScript: merge.ItemScript}
	for _, it := range merge.Items {
		if errors.Is(it.Err, shard.ErrLate) && time.Since(begun) < s.notAfter {
			again.Items = append(again.Items, it)
		}
	}
	if len(again.Items) > 0 {
		sh.EvalItems(ctx, sh.Front, again)
	}
}

func (s *Store) mergeScript(sh *shard.Shard) shard.ItemScript {
	return shard.ItemScript{
		Name: "merge", Keys: &s.calls.merge, Replies: 1,
		Head: func() []any { return []any{sh.Clock.In(s.notAfter)} },
	}
}

// mergeItems are the writes as the script takes writes (lua/merge.lua). A write that can't be encoded gets an error.
func (s *Store) mergeItems(writes []store.Write, answers []store.Written) []*shard.Item {
	items := make([]*shard.Item, len(writes))
	var encoder record.Encoder
	for i := range writes {
		args, bytes, err := encoder.Merge(writes, i)
		if err != nil {
			answers[i].Err = err
			continue
		}
		it := &shard.Item{Partition: partitionOf(writes[i].Key), Args: args, Bytes: bytes}
		if !makesTimer(&writes[i]) {
			it.WhenFull = 1
		}
		answers[i].Partition = it.Partition
		items[i] = it
	}
	return items
}

// makesTimer reports whether a write may make a timer, or a larger timer. Redis refuses such a write while its memory is
// full, and carries out all others.
func makesTimer(w *store.Write) bool {
	return w.Timer != nil && w.Kind != store.WriteNext && w.Kind != store.WriteRank
}

// readMerged reads the script's answer.
func readMerged(sh *shard.Shard, it *shard.Item, answer *store.Written) {
	readWritten(it, answer)
	if answer.Err == nil {
		answer.Firing = max(answer.Firing, sh.Quiet())
	}
}

func readWritten(it *shard.Item, answer *store.Written) {
	if it.Err != nil {
		answer.Err = it.Err
		return
	}
	r := reader{text: it.Reply[0]}
	status := r.word()
	if status == "later" {
		answer.Err = timer.ErrUpgrading
		return
	}
	if answer.Status = writeStatus(status); answer.Status == store.WriteNone && r.text == "" {
		return
	}
	answer.New, answer.Firing, answer.BodyHash = status == "made", record.Milliseconds(r.int64()), r.field()
	there := r.head()
	if r.err != nil || answer.Status == store.WriteFailed {
		answer.Status, answer.Err = store.WriteFailed, fmt.Errorf("%w: merge: %w: %q", timer.ErrUnavailable, shard.ErrReply, status)
		return
	}
	answer.State, answer.RF = there.State, there.RF
	if answer.Status == store.WriteNone {
		return
	}
	answer.Due = time.UnixMilli(there.DueMs()).UTC()
	answer.Wait = record.Until(there.DueMs(), it.NowUs)
}

// writeStatus reads the script's word; WriteFailed stands for any unknown word.
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

// readBytes is reckoned for a read, whose size nobody knows before.
const readBytes = shard.CommandBytes / 8

// Read is store.Store's. A single timer is read together with the writes of Merge: with a connection of its own, a read
// would wait for more connections while clients ask much. Several timers of a shard, such as a page of the sweep, may be
// large, and must not delay clients' writes.
func (s *Store) Read(ctx context.Context, spots []store.Spot) []store.ReadResult {
	results, items := make([]store.ReadResult, len(spots)), make([]*shard.Item, len(spots))
	for i, spot := range spots {
		items[i] = &shard.Item{Reads: true, Partition: partitionOf(spot.Key), Args: []any{spot.Key}, Bytes: readBytes}
	}
	shares := s.share(items, func(i int) (string, *error) { return spots[i].Shard, &results[i].Err })
	if slices.ContainsFunc(shares, func(from share) bool { return len(from.items) > 1 }) {
		scatter(shares, func(_ int, from share) {
			from.EvalItems(ctx, from.Front, shard.Batch{ItemScript: s.readScript(), Items: from.items})
			for k, i := range from.indexes {
				results[i] = readResult(spots[i].Key, from.items[k])
			}
		})
		return results
	}
	gathered(ctx, shares, func(from *share, it *shard.Item, i int) {
		if from.err != nil {
			results[i].Err = from.failure()
			return
		}
		results[i] = readResult(spots[i].Key, it)
	})
	return results
}

func (s *Store) readScript() shard.ItemScript {
	return shard.ItemScript{Name: "read", Keys: &s.calls.three, Replies: 3, Head: func() []any { return nil }}
}

func readResult(key string, it *shard.Item) store.ReadResult {
	if it.Err != nil {
		return store.ReadResult{Err: it.Err}
	}
	raw, score, lease := it.Reply[0], it.Reply[1], it.Reply[2]
	if raw == "" {
		return store.ReadResult{Err: timer.ErrNotFound}
	}
	rec, err := record.Parse(raw)
	if err == nil {
		rec, err = rec.NoteLease(lease)
	}
	result := store.ReadResult{Leased: lease != "", Holder: nodeOf(lease), Fired: strings.Contains(lease, " "), Due: time.UnixMilli(rec.DueMs()).UTC()}
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
		result.Look, result.LookIn = time.UnixMilli(int64(lookMs)).UTC(), record.Until(int64(lookMs), it.NowUs)
	}
	if rec.State.Attempt > 0 && !result.Leased {
		result.Due = result.Look
	}
	result.DueIn = record.Until(rec.DueMs(), it.NowUs)
	return result
}

// reader takes the words of a script's answer one by one and keeps the first error.
type reader struct {
	text string
	err  error
}

func (r *reader) word() string {
	word, rest, _ := strings.Cut(r.text, " ")
	if word == "" && r.err == nil {
		r.err = fmt.Errorf("%w: a word is missing", shard.ErrReply)
	}
	r.text = rest
	return word
}

// field is a word; - stands for an empty word.
func (r *reader) field() string {
	if word := r.word(); word != "-" {
		return word
	}
	return ""
}

func (r *reader) int64() int64 {
	n, err := strconv.ParseInt(r.word(), 10, 64)
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("%w: not a whole number", shard.ErrReply)
	}
	return n
}

// head takes the rest as the head of a record.
func (r *reader) head() record.Record {
	rec, err := record.ParseHead(r.text)
	if err != nil && r.err == nil {
		r.err = err
	}
	return rec
}
