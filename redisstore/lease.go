package redisstore

import (
	"context"
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

// A lease token is node:counter:taken_ms. nodeOf is the node that holds the lease.
func nodeOf(token string) string {
	node, _, _ := strings.Cut(token, ":")
	return node
}

func (s *Store) nextCounter() string { return strconv.FormatUint(s.counter.Add(1), 10) }

// Claim is store.Store's: one call for each partition, all in one round trip. A limit below the number of partitions
// takes several round trips.
func (s *Store) Claim(ctx context.Context, name string, req store.ClaimRequest) (store.ClaimResult, error) {
	sh, err := s.shard(name)
	if err != nil {
		return store.ClaimResult{}, err
	}
	counter, partitions := s.nextCounter(), s.partitionsOf(req)
	// A claim that noticed a loss of data would lease timers in vain.
	if err := sh.Ready(ctx); err != nil || sh.Quiet() > 0 {
		return store.ClaimResult{}, err
	}
	ctx = shard.SameProcess(ctx)
	var result store.ClaimResult
	var failed error
	for len(partitions) > 0 && failed == nil && len(result.Claims) < req.Limit {
		room := req.Limit - len(result.Claims)
		now := partitions[:min(len(partitions), room)]
		partitions = partitions[len(now):]
		calls := s.claimCalls(sh, counter, now, room, req)
		sh.Eval(ctx, sh.Poll, calls)
		for i, c := range calls {
			if c.Err != nil {
				failed = c.Err
				continue
			}
			if n := len(c.Reply); n%3 == 1 {
				last, _ := c.Reply[n-1].(string)
				more, putOff, _ := strings.Cut(last, " ")
				k, _ := strconv.Atoi(putOff) // nonsense counts as 0
				result.More, result.PutOff = result.More || more == "1", result.PutOff+k
			}
			result.Claims = append(result.Claims, s.readClaims(sh, counter, now[i], c)...)
		}
	}
	if sh.Quiet() > 0 { // the loss was noticed meanwhile; the leases end by themselves
		return store.ClaimResult{}, failed
	}
	return result, failed
}

// partitionsOf are the partitions of a claim. Every claim begins with another partition, so that a small limit
// starves no partition.
func (s *Store) partitionsOf(req store.ClaimRequest) []int {
	asked := req.Partitions
	if asked == nil {
		asked = make([]int, Partitions)
		for p := range asked {
			asked[p] = p
		}
	}
	if len(asked) == 0 {
		return nil
	}
	first := int(s.rotation.Add(1) % uint64(len(asked)))
	return slices.Concat(asked[first:], asked[:first])
}

// claimCalls shares room out among partitions.
func (s *Store) claimCalls(sh *shard.Shard, counter string, partitions []int, room int, req store.ClaimRequest) []*shard.Call {
	n := len(partitions)
	leaveRetries := "0"
	if req.LeaveOwnRetries {
		leaveRetries = "1"
	}
	bytes := maxClaimBytes
	if req.MaxBytes > 0 {
		bytes = min(max(req.MaxBytes/n, 1), maxClaimBytes)
	}
	if together := min(shard.CommandItems*n/room, n); together > 1 {
		bytes = min(bytes, shard.CommandBytes/together)
	}
	calls := make([]*shard.Call, n)
	for i := range calls {
		share := room / n
		if i < room%n {
			share++
		}
		calls[i] = &shard.Call{Script: "claim", Keys: s.calls.claim[partitions[i]], Items: min(share, shard.MaxItems), Bytes: bytes, Args: []any{
			req.Horizon.Milliseconds(), min(share, shard.MaxItems), s.node, counter, record.WholeMs(req.Grace), leaveRetries, sh.Clock.In(s.notAfter), bytes,
			req.Neglected.Milliseconds(), req.KeepTombstones.Milliseconds(),
		}}
	}
	return calls
}

// maxClaimBytes is how much a script brings at most for any caller: a shard does nothing else during a call.
const maxClaimBytes = 16 << 20

// readClaims reads "score_ms previous_lease" (with the notes of a passed fence), key and record of every claim.
func (s *Store) readClaims(sh *shard.Shard, counter string, partition int, c *shard.Call) []store.Claimed {
	token := s.node + ":" + counter + ":" + strconv.FormatInt(c.NowUs/1000, 10)
	claims := make([]store.Claimed, 0, len(c.Reply)/3)
	nonsense := 0
	for i := 0; i+3 <= len(c.Reply); i += 3 {
		line, ok1 := c.Reply[i].(string)
		key, ok2 := c.Reply[i+1].(string)
		raw, ok3 := c.Reply[i+2].(string)
		if !ok1 || !ok2 || !ok3 {
			nonsense++
			continue
		}
		r := reader{text: line}
		score, previous := r.int64(), r.word()
		claimed := s.claimed(store.Lease{Shard: sh.Name(), Key: key, Token: token, Partition: partition}, score, raw)
		claimed.DueIn = sh.Clock.Until(score)
		if previous != "-" {
			claimed.Previous, claimed.PreviousFired = nodeOf(previous), r.text != ""
		}
		claims = append(claims, claimed)
	}
	if nonsense > 0 {
		sh.Log.Error("claim answered nonsense", "timers", nonsense)
	}
	return claims
}

func (s *Store) claimed(lease store.Lease, scoreMs int64, raw string) store.Claimed {
	rec, err := record.Parse(raw)
	lease.Found = rec.Found(scoreMs)
	claimed := store.Claimed{Lease: lease}
	if err == nil && partitionOf(lease.Key) != lease.Partition {
		err = fmt.Errorf("%w: it is in partition %d, where no request finds it", record.ErrMalformed, lease.Partition)
	}
	if err == nil {
		claimed.Record, err = rec.Scheduled(lease.Key)
	}
	if err != nil {
		claimed.Err = fmt.Errorf("claim timer: %w", err)
		claimed.Record.ID.Key = lease.Key
	}
	return claimed
}

// fenceStatus reads the script's word; FenceFailed stands for any unknown word.
func fenceStatus(word string) store.FenceStatus {
	words := [...]string{store.FencePassed: "passed", store.FenceEarly: "early", store.FenceLost: "lost", store.FenceExpired: "expired", store.FenceTooLate: "stale"}
	return store.FenceStatus(max(slices.Index(words[:], word), 0))
}

// Fire is store.Store's.
func (s *Store) Fire(ctx context.Context, name string, terms store.FenceTerms, fences []store.Fence) []store.Fenced {
	sh, err := s.shard(name)
	if err != nil {
		return slices.Repeat([]store.Fenced{{Err: err}}, len(fences))
	}
	results := make([]store.Fenced, len(fences))
	if sh.Quiet() > 0 {
		return tooLate(results)
	}
	items := make([]*shard.Item, len(fences))
	for i := range fences {
		f := &fences[i]
		items[i] = &shard.Item{Partition: f.Lease.Partition, Args: []any{
			f.Lease.Key, f.Lease.Token, f.Lease.Found.ScoreMs, sh.Clock.In(terms.Limit - f.Age), foundBy(f),
		}}
	}
	script := shard.ItemScript{Name: "fire", Keys: &s.calls.fence, Replies: 1, Head: func() []any {
		return []any{record.WholeMs(terms.Limit), record.WholeMs(terms.Hold), max(terms.CatchUp, 1)}
	}}
	sh.EvalItems(ctx, sh.Fire, shard.Batch{ItemScript: script, Items: items})
	for i, it := range items {
		results[i] = readFenced(it, &fences[i].Lease.Found)
	}
	if sh.Quiet() > 0 { // the loss was noticed meanwhile
		return tooLate(results)
	}
	return results
}

func tooLate(results []store.Fenced) []store.Fenced {
	for i := range results {
		results[i].Status = store.FenceTooLate
	}
	return results
}

// foundBy is what the fence's claim found; "-" for the first attempt at a timer's only pop.
func foundBy(f *store.Fence) any {
	found := &f.Lease.Found
	if found.State.Seq == 1 && found.State.Attempt == 0 && found.FiringUntilMs == 0 && found.LeftOut == 0 && f.Pops == 1 && f.ExpiresAfter == 0 {
		return "-"
	}
	return words(int64(found.State.Seq), int64(found.State.Attempt), found.FiringUntilMs, int64(found.LeftOut), found.StartMs, found.IntervalMs, int64(f.Pops), record.WholeMs(f.ExpiresAfter))
}

// words are numbers with a space between them.
func words(numbers ...int64) []byte {
	text := make([]byte, 0, 64)
	for i, n := range numbers {
		if i > 0 {
			text = append(text, ' ')
		}
		text = strconv.AppendInt(text, n, 10)
	}
	return text
}

// readFenced reads "passed seq attempt left", "expired seq attempt left", "early wait_ms", "lost" or "stale".
func readFenced(it *shard.Item, found *store.Found) store.Fenced {
	if it.Err != nil {
		return store.Fenced{Err: it.Err}
	}
	r := reader{text: it.Reply[0]}
	fenced := store.Fenced{Status: fenceStatus(r.word())}
	switch fenced.Status {
	case store.FencePassed, store.FenceExpired:
		fenced.State = found.State
		fenced.State.Seq, fenced.State.Attempt = int(r.int64()), int(r.int64())
		fenced.LeftOut = int(r.int64())
		dueMs := found.StartMs + int64(fenced.State.Seq)*found.IntervalMs
		fenced.Due, fenced.Late = time.UnixMilli(dueMs).UTC(), -record.Until(dueMs, it.NowUs)
	case store.FenceEarly:
		fenced.Wait = record.Milliseconds(r.int64())
	case store.FenceLost:
		fenced.Free = r.text != ""
	case store.FenceTooLate, store.FenceFailed:
	}
	if r.err != nil || fenced.Status == store.FenceFailed {
		return store.Fenced{Err: fmt.Errorf("%w: fence: %w", timer.ErrUnavailable, shard.ErrReply)}
	}
	return fenced
}

// Ask is store.Store's.
func (s *Store) Ask(ctx context.Context, name string, states []store.KeyState) ([]store.Difference, error) {
	sh, err := s.shard(name)
	if err != nil {
		return nil, err
	}
	var calls []*shard.Call
	var indexes [][]int // for each call the indexes of the call's states
	var open [Partitions]int
	for i, st := range states {
		p := partitionOf(st.Key)
		if k := open[p] - 1; k < 0 || len(indexes[k]) == shard.MaxItems {
			calls, indexes = append(calls, &shard.Call{Script: "ask", Keys: s.calls.three[p]}), append(indexes, nil)
			open[p] = len(calls)
		}
		k, rankFrom := open[p]-1, any("-")
		switch {
		case st.Better:
			rankFrom = 0
		case st.RankFrom > 0:
			rankFrom = st.RankFrom
		}
		calls[k].Args = append(calls[k].Args, st.Key, record.State(st.State), rankFrom)
		indexes[k] = append(indexes[k], i)
		calls[k].Items++
	}
	sh.Eval(ctx, sh.Ask, calls)
	byIndex := make(map[int]store.Difference)
	for k, c := range calls {
		said, err := sh.Texts(c)
		if err == nil {
			err = readDifferences(said, indexes[k], byIndex)
		}
		if err != nil {
			return nil, err
		}
	}
	differences := make([]store.Difference, 0, len(byIndex))
	for i := range states {
		if d, ok := byIndex[i]; ok {
			if sh.Quiet() > 0 && !d.Missing && !d.Later {
				d.LookIn = -1
			}
			differences = append(differences, d)
		}
	}
	return differences, nil
}

// readDifferences reads texts "index firing_ms look_in_ms head", "index missing" or "index later version".
func readDifferences(said []string, indexes []int, into map[int]store.Difference) error {
	for _, text := range said {
		r := reader{text: text}
		k := r.int64()
		if r.err != nil || k < 0 || int(k) >= len(indexes) {
			return fmt.Errorf("%w: ask: %w", timer.ErrUnavailable, shard.ErrReply)
		}
		d := store.Difference{Index: indexes[k], Missing: r.text == "missing"}
		if version, later := strings.CutPrefix(r.text, "later "); later {
			d.Later = true
			d.State.Version, r.err = timer.ParseVersion(version)
		} else if !d.Missing {
			d.Firing, d.LookIn, d.State = record.Milliseconds(r.int64()), record.Milliseconds(r.int64()), r.head().State
		}
		if r.err != nil {
			return fmt.Errorf("%w: ask: %w", timer.ErrUnavailable, r.err)
		}
		into[d.Index] = d
	}
	return nil
}
