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

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// Merge is store.Store's: group commit, by a batcher for each shard.
func (s *Store) Merge(ctx context.Context, writes []store.Write) []store.Written {
	answers := make([]store.Written, len(writes))
	items := s.mergeItems(writes, answers)
	p := s.Placement()
	shards, shares := own(p.Shards), make([]mergeShare, len(p.Shards))
	for i, it := range items {
		if it == nil {
			continue
		}
		at, ok := p.Index(writes[i].Shard)
		if !ok {
			_, answers[i].Err = s.shard(writes[i].Shard)
			continue
		}
		shares[at].items, shares[at].indexes = append(shares[at].items, it), append(shares[at].indexes, i)
	}
	for at := range shares {
		if sh := &shares[at]; len(sh.items) > 0 {
			sh.job, sh.err = shards[at].merger.submit(ctx, sh.items)
		}
	}
	for at := range shares {
		sh := &shares[at]
		if len(sh.items) > 0 && sh.err == nil {
			sh.err = sh.job.wait()
		}
		for k, i := range sh.indexes {
			switch {
			case errors.Is(sh.err, timer.ErrOverloaded):
				answers[i].Err = sh.err
			case sh.err != nil:
				answers[i].Err = fmt.Errorf("%w: shard %s: %w", timer.ErrUnavailable, writes[i].Shard, sh.err)
			default:
				shards[at].readMerged(sh.items[k], &writes[i], &answers[i])
			}
		}
	}
	return answers
}

// mergeShare is what of a Merge goes to one shard.
type mergeShare struct {
	items   []*item
	indexes []int
	job     job
	err     error
}

// Tell is store.Store's.
func (s *Store) Tell(ctx context.Context, shard string, writes []store.Write) []store.Written {
	answers := make([]store.Written, len(writes))
	sh, err := s.shard(shard)
	if err != nil {
		for i := range answers {
			answers[i].Err = err
		}
		return answers
	}
	items := s.mergeItems(writes, answers)
	sh.evalItems(ctx, sh.ask, &s.keys, s.mergeScript(sh), slices.DeleteFunc(slices.Clone(items), func(it *item) bool { return it == nil }))
	for i, it := range items {
		if it != nil {
			sh.readMerged(it, &writes[i], &answers[i])
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

// mergeItems are the writes as the script takes them (lua/merge.lua): the record
// in two parts, between which the shard puts the start of its grid. What can't be
// written has an error instead.
func (s *Store) mergeItems(writes []store.Write, answers []store.Written) []*item {
	items := make([]*item, len(writes))
	var tail []byte
	for i := range writes {
		w := &writes[i]
		// Copies of one timer, which stand together, share what they say.
		if i == 0 || !sameTail(w, &writes[i-1]) || tail == nil {
			tail = nil
			if w.Timer == nil || w.Kind == store.WriteNext || w.Kind == store.WriteRank {
				tail = tailOfEnd(w)
			} else if b, err := appendTail(make([]byte, 0, typicalRecord), w); err == nil {
				tail = b
			} else {
				answers[i].Err = err
				continue
			}
		}
		it := &item{partition: partitionOf(w.Key), bytes: len(tail)}
		if w.Kind == store.WriteGone || w.Kind == store.WriteBury {
			it.ends = 1
		}
		answers[i].Partition = it.partition
		from := startOf(w)
		it.args = []any{string(w.Kind), w.Key, appendHead(make([]byte, 0, typicalHead), w), tail, from.text, from.look, moreOf(w)}
		items[i] = it
	}
	return items
}

func sameTail(a, b *store.Write) bool {
	return a.Timer != nil && a.Timer == b.Timer && a.Kind == b.Kind && a.BodyHash == b.BodyHash && a.Failure == b.Failure
}

const (
	typicalRecord = 256 // bytes
	typicalHead   = 40
)

// start is when a grid begins, and when to look at the timer first.
type start struct {
	text any // ms from now, or, where a client gave one, an instant behind an @; empty where the grid stays
	look any // ms from the start; of a next pop from when that is due
}

func startOf(w *store.Write) start {
	switch {
	case w.Kind == store.WriteNext:
		return start{"", w.Offset.Milliseconds()}
	case w.Timer == nil:
		return start{"", ""}
	}
	nth := int64(w.State.Seq) * wholeMs(w.Timer.Interval)
	look := nth + w.Offset.Milliseconds()
	switch {
	case w.Kind == store.WriteRank:
		return start{"", look}
	case !w.Timer.At.IsZero():
		return start{"@" + strconv.FormatInt(w.Timer.At.UnixMilli()-nth, 10), look}
	}
	return start{strconv.FormatInt(wholeMs(w.DueIn)-nth, 10), look}
}

// moreOf is what few writes need.
func moreOf(w *store.Write) string {
	look, keep := "-", strconv.FormatInt(wholeMs(w.Keep), 10)
	switch {
	case w.Kind == store.WriteGone, w.Kind == store.WriteBury, w.Kind == store.WriteDone, w.Kind == store.WriteAnew && w.Timer == nil:
		look = strconv.FormatInt(wholeMs(w.Life), 10)
	case w.Kind == store.WriteAgain, w.Kind == store.WriteLive && w.State.Attempt > 0,
		w.Kind == store.WriteRank && w.State.Attempt > 0 && w.Retry != 0:
		look = strconv.FormatInt(wholeMs(w.Retry), 10)
	case w.Token == "" && plain(w):
		if w.Rank == 0 && w.Timer != nil && len(w.Timer.Tags) > 0 {
			return "tags"
		}
		return ""
	}
	return look + " " + keep + " " + cmp.Or(w.Token, "-")
}

// plain says of a write that the record can be stored as it is where nothing is.
func plain(w *store.Write) bool {
	switch w.Kind {
	case store.WriteNext, store.WriteDrop, store.WriteLook, store.WriteOnto, store.WriteLeave, store.WriteRank:
		return false
	default:
		return w.Failure.IsZero() || !w.Failure.At.IsZero()
	}
}

// readMerged reads what the script answers to w.
func (s *shard) readMerged(it *item, w *store.Write, answer *store.Written) {
	readMerged(it, w, answer)
	if answer.Err == nil {
		answer.Firing = max(answer.Firing, s.quiet())
	}
}

func readMerged(it *item, w *store.Write, answer *store.Written) {
	if it.err != nil {
		answer.Err = it.err
		return
	}
	r := reader{text: it.reply[0]}
	status := r.word()
	var dueMs int64
	if status == "new" {
		answer.New = true
		answer.State, answer.RF, answer.BodyHash = w.State, max(w.RF, 1), w.BodyHash
		answer.State.Ended = false
		dueMs = r.int64() + int64(w.State.Seq)*wholeMs(w.Timer.Interval)
	} else {
		answer.New = status == "made"
		answer.State = r.state()
		answer.Firing = milliseconds(r.int64())
		dueMs = r.int64()
		answer.RF = int(r.int64())
		answer.BodyHash = r.field()
	}
	var ok bool
	if answer.Status, ok = writeStatus(status); r.err != nil || !ok {
		answer.Status, answer.Err = store.WriteFailed, fmt.Errorf("%w: merge: %w: %q", timer.ErrUnavailable, errReply, status)
		return
	}
	if answer.Status == store.WriteNone {
		return
	}
	answer.Due = time.UnixMilli(dueMs).UTC()
	answer.Wait = until(dueMs, it.nowUs)
}

func writeStatus(word string) (store.WriteStatus, bool) {
	switch word {
	case "new", "made", "stored":
		return store.WriteStored, true
	case "same":
		return store.WriteSame, true
	case "newer":
		return store.WriteNewer, true
	case "conflict":
		return store.WriteConflict, true
	case "factor":
		return store.WriteFactor, true
	case "exists":
		return store.WriteExists, true
	case "leased":
		return store.WriteLeased, true
	case "lost":
		return store.WriteLost, true
	case "none":
		return store.WriteNone, true
	case "older":
		return store.WriteOlder, true
	}
	return store.WriteFailed, false
}

// Read is store.Store's.
func (s *Store) Read(ctx context.Context, spots []store.Spot) []store.ReadResult {
	results := make([]store.ReadResult, len(spots))
	items := make(map[*shard][]*item, 1)
	indexes := make(map[*shard][]int, 1)
	for i, spot := range spots {
		sh, err := s.shard(spot.Shard)
		if err != nil {
			results[i].Err = err
			continue
		}
		items[sh] = append(items[sh], &item{partition: partitionOf(spot.Key), args: []any{spot.Key}})
		indexes[sh] = append(indexes[sh], i)
	}
	script := itemScript{name: "read", keys: partitionKeys.three, head: func() []any { return nil }, replies: 3}
	inParallel(items, func(sh *shard, asked []*item) {
		sh.evalItems(ctx, sh.front, &s.keys, script, asked)
		for k, it := range asked {
			i := indexes[sh][k]
			results[i] = readResult(spots[i].Key, it)
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
	rec, err := parseRecord(raw)
	if err == nil {
		rec, err = rec.noteLease(lease)
	}
	result := store.ReadResult{Leased: lease != "", Due: time.UnixMilli(rec.dueMs()).UTC()}
	if err == nil {
		result.Record, err = rec.scheduled(key)
	}
	if err != nil {
		return store.ReadResult{Err: fmt.Errorf("read timer: %w", err)}
	}
	if rec.state.Ended {
		result.Err = timer.ErrNotFound
	}
	if lookMs, err := strconv.ParseFloat(score, 64); err == nil {
		result.Look, result.LookIn = time.UnixMilli(int64(lookMs)).UTC(), until(int64(lookMs), it.nowUs)
	}
	if rec.state.Attempt > 0 && !result.Leased {
		result.Due = result.Look
	}
	result.DueIn = until(rec.dueMs(), it.nowUs)
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

// position is "version seq attempt", state adds "ended".
func (r *reader) position() timer.State {
	word := r.word()
	version, err := strconv.ParseUint(word, 16, 64)
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("%w: not a version", errReply)
	}
	return timer.State{Version: timer.Version(version), Seq: int(r.int64()), Attempt: int(r.int64())}
}

func (r *reader) state() timer.State {
	state := r.position()
	state.Ended = r.int64() == 1
	return state
}
