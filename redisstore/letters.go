package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"chronos/redisstore/record"
	"chronos/redisstore/shard"
	"chronos/scheduler/awake"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

var _ store.LetterStore = (*Store)(nil)

const (
	// letterPageBytes is how much a page of dead letters brings at most; a page has at least one letter.
	letterPageBytes = 8 << 20
	// letterRound is how many dead letters of a partition are looked at together: less than a millisecond of Redis'
	// time.
	letterRound = 64
	// letterScan is how many dead letters are looked at for one page, letterTime for how long: a filter may pick few
	// of very many letters.
	letterScan = 20000
	letterTime = 1500 * time.Millisecond
)

// Letters is store.LetterStore's. Dead letters are listed by the time of giving up, whatever their order and place
// in the store: each round asks all partitions of all shards from the same position on.
func (s *Store) Letters(ctx context.Context, q store.LetterQuery) (page store.LetterPage, err error) {
	at := letterPosition{score: math.Inf(1)}
	if !q.Filter.Until.IsZero() {
		at.score = float64(q.Filter.Until.UnixMilli())
	}
	if q.Cursor != "" {
		if at, err = parseLetterCursor(q.Cursor); err != nil {
			return page, err
		}
	}
	scan := letterScanner{s: s, since: math.Inf(-1), most: min(max(q.Limit, 8), letterRound)}
	if !q.Filter.Since.IsZero() {
		scan.since = float64(q.Filter.Since.UnixMilli())
	}
	scan.begin(ctx)
	size, last := 0, ""
	for begun := time.Now(); ; {
		found, more := scan.round(ctx, at)
		for i := range found {
			if len(page.Letters) >= q.Limit || size >= letterPageBytes {
				more = true
				break
			}
			l := found[i].read()
			at = found[i].position()
			if l.ID != last && q.Filter.Picks(&l) { // a letter on two shards is listed once
				page.Letters, size, last = append(page.Letters, l), size+len(l.Text), l.ID
			}
		}
		scan.looked += len(found)
		full := len(page.Letters) >= q.Limit || size >= letterPageBytes
		if more && (full || scan.looked >= letterScan || time.Since(begun) >= letterTime || ctx.Err() != nil) {
			page.Next = at.within(q.Filter.KeyPrefix).cursor()
		}
		if !more || page.Next != "" {
			break
		}
	}
	page.Total, page.Unreached = scan.total, scan.unreached
	return page, nil
}

// letterScanner goes over the dead letters of all shards that answer.
type letterScanner struct {
	s      *Store
	since  float64
	most   int // of a partition in a round
	looked int

	shards    []*shard.Shard // shards that answer
	unreached []string
	total     int64
}

// begin counts the letters, and finds out which shards answer.
func (sc *letterScanner) begin(ctx context.Context) {
	shards := sc.s.shards()
	surveys, errs := make([]store.Survey, len(shards)), make([]error, len(shards))
	scatter(shards, func(i int, sh *shard.Shard) { surveys[i], errs[i] = sc.s.Survey(ctx, sh.Name()) })
	for i, sh := range shards {
		if errs[i] != nil {
			sc.unreached = append(sc.unreached, sh.Name())
			continue
		}
		sc.shards, sc.total = append(sc.shards, sh), sc.total+surveys[i].Letters
	}
}

// round returns the letters from a position on, in order, as far as all letters are known: a partition that has more
// letters than it returned limits the result to its last returned letter.
func (sc *letterScanner) round(ctx context.Context, at letterPosition) (found []storedLetter, more bool) {
	bytes := letterPageBytes / (Partitions * max(len(sc.shards), 1))
	lists := make([][]letterList, len(sc.shards))
	scatter(sc.shards, func(i int, sh *shard.Shard) {
		lists[i] = sc.s.listLetters(ctx, sh, at, sc.since, sc.most, bytes)
	})
	var known letterPosition
	answered := sc.shards[:0:0]
	for i, sh := range sc.shards {
		if slices.ContainsFunc(lists[i], func(l letterList) bool { return l.err != nil }) {
			sc.unreached = append(sc.unreached, sh.Name())
			continue
		}
		answered = append(answered, sh)
		for _, l := range lists[i] {
			found = append(found, l.letters...)
			if !l.more {
				continue
			}
			if end := l.letters[len(l.letters)-1].position(); !more || end.compare(known) < 0 {
				known = end
			}
			more = true
		}
	}
	sc.shards = answered
	slices.SortStableFunc(found, func(a, b storedLetter) int { return a.position().compare(b.position()) })
	if more {
		found = slices.DeleteFunc(found, func(l storedLetter) bool { return l.position().compare(known) > 0 })
	}
	return found, more
}

// letterList is the answer of a partition.
type letterList struct {
	letters []storedLetter
	more    bool
	err     error
}

// listLetters asks all partitions for their newest letters from a position on, back to since.
func (s *Store) listLetters(ctx context.Context, sh *shard.Shard, at letterPosition, since float64, most, bytes int) []letterList {
	calls := make([]*shard.Call, Partitions)
	for p := range calls {
		calls[p] = letterCall(s.keys[p].dead, at, since, most, bytes)
	}
	sh.Eval(ctx, sh.Poll, calls)
	lists := make([]letterList, Partitions)
	for p, c := range calls {
		lists[p] = readLetters(sh, p, c)
	}
	return lists
}

func letterCall(dead string, at letterPosition, since float64, most, bytes int) *shard.Call {
	return &shard.Call{Script: "letters", Keys: []string{dead}, Args: []any{formatScore(at.score), at.behind, formatScore(since), most, bytes}}
}

func readLetters(sh *shard.Shard, partition int, c *shard.Call) letterList {
	all, err := sh.Texts(c)
	if err == nil && len(all)%2 != 1 {
		err = sh.Unavailable(shard.ErrReply)
	}
	if err != nil {
		return letterList{err: err}
	}
	list := letterList{more: all[0] == "more" && len(all) > 1}
	for i := 1; i < len(all); i += 2 {
		score, err := strconv.ParseFloat(all[i], 64)
		if err != nil {
			return letterList{err: sh.Unavailable(shard.ErrReply)}
		}
		list.letters = append(list.letters, storedLetter{shard: sh, partition: partition, score: score, text: all[i+1]})
	}
	return list
}

// Letter is store.LetterStore's.
func (s *Store) Letter(ctx context.Context, id string) (store.Letter, error) {
	wanted, ok := parseLetterID(id)
	if !ok {
		return store.Letter{}, timer.ErrNotFound
	}
	var failed error
	for _, sh := range s.shards() {
		found, err := s.findLetter(ctx, sh, wanted)
		if err == nil {
			return found.read(), nil
		}
		if !errors.Is(err, timer.ErrNotFound) {
			failed = err
		}
	}
	if failed != nil {
		return store.Letter{}, failed
	}
	return store.Letter{}, cmp.Or(s.Writable(), timer.ErrNotFound)
}

// findLetter looks through the letters of a shard that were given up at the same time.
func (s *Store) findLetter(ctx context.Context, sh *shard.Shard, id letterID) (storedLetter, error) {
	for at := (letterPosition{score: id.score}); ; {
		c := letterCall(s.keys[id.partition].dead, at, id.score, letterRound, letterPageBytes)
		sh.Eval(ctx, sh.Poll, []*shard.Call{c})
		list := readLetters(sh, id.partition, c)
		if list.err != nil {
			return storedLetter{}, list.err
		}
		for _, l := range list.letters {
			if l.hash() == id.hash {
				return l, nil
			}
			at = l.position()
		}
		if !list.more {
			return storedLetter{}, timer.ErrNotFound
		}
	}
}

// RemoveLetters is store.LetterStore's. The letters are removed from all shards: a letter that is being moved is on
// two shards.
func (s *Store) RemoveLetters(ctx context.Context, letters []store.Letter) []error {
	errs := make([]error, len(letters))
	shards := s.shards()
	answers := make([][]error, len(shards))
	scatter(shards, func(i int, sh *shard.Shard) { answers[i] = s.removeFrom(ctx, sh, letters) })
	for k := range letters {
		errs[k] = fmt.Errorf("%w: no shard is named %q", timer.ErrUnavailable, letters[k].Shard)
		for i, sh := range shards {
			if sh.Name() == letters[k].Shard {
				errs[k] = answers[i][k]
			}
		}
	}
	return errs
}

func (s *Store) removeFrom(ctx context.Context, sh *shard.Shard, letters []store.Letter) []error {
	errs := make([]error, len(letters))
	pipe, removals := sh.Poll.Pipeline(), make([]*redis.IntCmd, len(letters))
	err := sh.Ready(ctx)
	for k := range letters {
		id, ok := parseLetterID(letters[k].ID)
		if errs[k] = err; ok && err == nil {
			removals[k] = pipe.ZRem(ctx, s.keys[id.partition].dead, letters[k].Text)
		}
	}
	if err != nil || len(letters) == 0 {
		return errs
	}
	_, err = pipe.Exec(ctx)
	for k, removal := range removals {
		if removal == nil {
			errs[k] = timer.ErrNotFound
			continue
		}
		failed := removal.Err()
		if failed == nil && !isAnswer(err) {
			failed = err // a failure before anything is sent leaves no error at the commands
		}
		if failed != nil {
			errs[k] = sh.Unavailable(failed)
		}
	}
	return errs
}

func isAnswer(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer)
}

const (
	// pruneInterval is how often old letters are removed, at least.
	pruneInterval = time.Minute
	// pruneMost is how many letters of a partition are removed together.
	pruneMost = 500
)

// PruneLetters removes the dead letters that are older than keep by their shard's clock, until ctx ends.
// PruneLetters works every minute, or more often if keep is short. All nodes may prune at once.
func (s *Store) PruneLetters(ctx context.Context, keep time.Duration) {
	interval := min(pruneInterval, max(keep/2, 100*time.Millisecond))
	for awake.Sleep(ctx, interval*9/10+rand.N(interval/5)) {
		for _, sh := range s.shards() {
			if err := s.pruneShard(ctx, sh, keep); err != nil {
				sh.Log.Debug("dead letters that are too old could not be removed", "err", err)
			}
		}
	}
}

func (s *Store) pruneShard(ctx context.Context, sh *shard.Shard, keep time.Duration) error {
	keys := make([]string, 0, Partitions)
	for _, k := range &s.keys {
		keys = append(keys, k.dead)
	}
	for len(keys) > 0 && ctx.Err() == nil {
		calls := make([]*shard.Call, len(keys))
		for i, key := range keys {
			calls[i] = &shard.Call{Script: "prune", Keys: []string{key}, Args: []any{record.WholeMs(keep), pruneMost}}
		}
		sh.Eval(ctx, sh.Poll, calls)
		keys = keys[:0]
		for _, c := range calls {
			if c.Err != nil {
				return c.Err
			}
			if slices.Equal(c.Reply, []any{int64(pruneMost)}) {
				keys = append(keys, c.Keys[0]) // the partition may have more
			}
		}
	}
	return nil
}
