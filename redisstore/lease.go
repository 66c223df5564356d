package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"chronos/redisstore/record"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// A lease token is node:counter:taken_ms. nodeOf is who holds it.
func nodeOf(token string) string {
	node, _, _ := strings.Cut(token, ":")
	return node
}

func (s *Store) nextCounter() string { return strconv.FormatUint(s.counter.Add(1), 10) }

// Claim is store.Store's: one call for each partition, all in one round
// trip; in several, if the limit is less than the partitions are.
func (s *Store) Claim(ctx context.Context, shard string, req store.ClaimRequest) (store.ClaimResult, error) {
	sh, err := s.shard(shard)
	if err != nil {
		return store.ClaimResult{}, err
	}
	counter, partitions := s.nextCounter(), s.partitionsOf(req)
	if sh.quiet() > 0 {
		return store.ClaimResult{}, sh.ready(ctx)
	}
	var result store.ClaimResult
	var failed error
	for len(partitions) > 0 && failed == nil && len(result.Claims) < req.Limit {
		room := req.Limit - len(result.Claims)
		now := partitions[:min(len(partitions), room)]
		partitions = partitions[len(now):]
		calls := s.claimCalls(sh, counter, now, room, req)
		sh.eval(ctx, sh.poll, calls)
		for i, c := range calls {
			if c.err != nil {
				failed = c.err
				continue
			}
			claims, more := s.readClaims(sh, counter, now[i], c)
			result.More = result.More || more
			result.Claims = append(result.Claims, claims...)
		}
	}
	if sh.quiet() > 0 { // the loss was noticed meanwhile; the leases end by themselves
		return store.ClaimResult{}, failed
	}
	return result, failed
}

// partitionsOf are those that a claim is about, beginning with another one each
// time, so that a small limit starves none.
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
func (s *Store) claimCalls(sh *shard, counter string, partitions []int, room int, req store.ClaimRequest) []*call {
	n := len(partitions)
	leaveRetries := "0"
	if req.LeaveOwnRetries {
		leaveRetries = "1"
	}
	bytes := maxClaimBytes
	if req.MaxBytes > 0 {
		bytes = min(max(req.MaxBytes/n, 1), maxClaimBytes)
	}
	calls := make([]*call, n)
	for i := range calls {
		share := room / n
		if i < room%n {
			share++
		}
		calls[i] = &call{script: "claim", keys: s.keys[partitions[i]].merge(), args: []any{
			req.Horizon.Milliseconds(), min(share, maxItems), s.node, counter, record.WholeMs(req.Grace), leaveRetries, sh.clock.in(s.notAfter), bytes,
			req.Neglected.Milliseconds(), req.KeepTombstones.Milliseconds(),
		}}
	}
	return calls
}

// maxClaimBytes is what a script brings at most, whoever asks: a shard does
// nothing else meanwhile.
const maxClaimBytes = 16 << 20

// readClaims reads "score_ms previous_lease", key and record for each, and "more"
// if there may be more.
func (s *Store) readClaims(sh *shard, counter string, partition int, c *call) (claims []store.Claimed, more bool) {
	token := s.node + ":" + counter + ":" + strconv.FormatInt(c.nowUs/1000, 10)
	claims = make([]store.Claimed, 0, len(c.reply)/3)
	nonsense := 0
	for i := 0; i+3 <= len(c.reply); i += 3 {
		line, ok1 := c.reply[i].(string)
		key, ok2 := c.reply[i+1].(string)
		raw, ok3 := c.reply[i+2].(string)
		if !ok1 || !ok2 || !ok3 {
			nonsense++
			continue
		}
		r := reader{text: line}
		score, previous := r.int64(), r.word()
		claimed := s.claimed(store.Lease{Shard: sh.name, Key: key, Token: token, Partition: partition}, score, raw)
		claimed.DueIn = sh.clock.until(score)
		if previous != "-" {
			claimed.Previous = nodeOf(previous)
		}
		claims = append(claims, claimed)
	}
	if nonsense > 0 {
		sh.log.Error("claim answered nonsense", "timers", nonsense)
	}
	return claims, len(c.reply)%3 == 1
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

// fenceStatus reads what the script found; FenceFailed stands for any other word.
func fenceStatus(word string) store.FenceStatus {
	words := [...]string{store.FencePassed: "passed", store.FenceEarly: "early", store.FenceLost: "lost", store.FenceTooLate: "late"}
	return store.FenceStatus(max(slices.Index(words[:], word), 0))
}

// Fire is store.Store's.
func (s *Store) Fire(ctx context.Context, shard string, terms store.FenceTerms, fences []store.Fence) []store.Fenced {
	sh, err := s.shard(shard)
	if err != nil {
		return slices.Repeat([]store.Fenced{{Err: err}}, len(fences))
	}
	results := make([]store.Fenced, len(fences))
	if sh.quiet() > 0 {
		return tooLate(results)
	}
	items := make([]*item, len(fences))
	for i, f := range fences {
		items[i] = &item{partition: f.Lease.Partition, args: []any{
			f.Lease.Key, f.Lease.Token, f.Lease.Found.ScoreMs, f.Lease.Found.State.Seq, f.Lease.Found.State.Attempt,
			f.Lease.Found.StartMs, f.Lease.Found.IntervalMs, f.Lease.Found.FiringUntilMs, f.Lease.Found.LeftOut, f.Pops, sh.clock.in(terms.Limit - f.Age),
		}}
	}
	script := itemScript{name: "fire", keys: partitionKeys.fence, replies: 1, head: func() []any {
		return []any{record.WholeMs(terms.Limit), record.WholeMs(terms.Hold), max(terms.CatchUp, 1)}
	}}
	sh.evalItems(ctx, sh.fire, &s.keys, script, items)
	for i, it := range items {
		results[i] = readFenced(it, fences[i].Lease.Found.State.Version)
	}
	if sh.quiet() > 0 { // the loss was noticed meanwhile
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

// readFenced reads "status seq attempt due_ms wait_ms left".
func readFenced(it *item, version timer.Version) store.Fenced {
	if it.err != nil {
		return store.Fenced{Err: it.err}
	}
	r := reader{text: it.reply[0]}
	fenced := store.Fenced{Status: fenceStatus(r.word())}
	fenced.State = timer.State{Version: version, Seq: int(r.int64()), Attempt: int(r.int64())}
	if fenced.Status == store.FenceLost {
		fenced.State = timer.State{}
	}
	dueMs := r.int64()
	fenced.Wait, fenced.LeftOut = record.Milliseconds(r.int64()), int(r.int64())
	if r.err != nil || fenced.Status == store.FenceFailed {
		return store.Fenced{Err: fmt.Errorf("%w: fence: %w", timer.ErrUnavailable, errReply)}
	}
	fenced.Due = time.UnixMilli(dueMs).UTC()
	fenced.Late = -record.Until(dueMs, it.nowUs)
	return fenced
}

// Settle is store.Store's.
func (s *Store) Settle(ctx context.Context, shard string, settlements []store.Settlement) []store.Settled {
	sh, err := s.shard(shard)
	if err != nil {
		return slices.Repeat([]store.Settled{{Err: err}}, len(settlements))
	}
	results := make([]store.Settled, len(settlements))
	items := make([]*item, len(settlements))
	for i, o := range settlements {
		items[i] = &item{partition: o.Lease.Partition, args: []any{
			o.Lease.Key, o.Lease.Token, o.Lease.Found.ScoreMs, o.Outcome.String(), record.WholeMs(o.Delay), o.Offset.Milliseconds(),
			record.WholeMs(o.Keep), record.Away(o.Untold), cmp.Or(o.Lease.Found.Tags, "-"), record.Escape(o.Reason),
		}}
	}
	script := itemScript{
		name: "settle", replies: 1, keys: partitionKeys.settle,
		head: func() []any { return []any{s.node} },
	}
	sh.evalItems(ctx, sh.fire, &s.keys, script, items)
	for i, it := range items {
		results[i] = readSettled(it)
	}
	return results
}

// readSettled reads "ok" or "lost lease".
func readSettled(it *item) store.Settled {
	if it.err != nil {
		return store.Settled{Err: it.err}
	}
	status, lease, _ := strings.Cut(it.reply[0], " ")
	settled := store.Settled{Accepted: status == "ok"}
	if !settled.Accepted && lease != "-" {
		settled.Holder = nodeOf(lease)
	}
	return settled
}

// Ask is store.Store's.
func (s *Store) Ask(ctx context.Context, shard string, states []store.KeyState) ([]store.Difference, error) {
	sh, err := s.shard(shard)
	if err != nil {
		return nil, err
	}
	var calls []*call
	var indexes [][]int // of the states that each call asks about
	var open [Partitions]int
	for i, st := range states {
		p := partitionOf(st.Key)
		if k := open[p] - 1; k < 0 || len(indexes[k]) == maxItems {
			calls, indexes = append(calls, &call{script: "ask", keys: s.keys[p].three()}), append(indexes, nil)
			open[p] = len(calls)
		}
		k, rankFrom := open[p]-1, any("-")
		switch {
		case st.Better:
			rankFrom = 0
		case st.RankFrom > 0:
			rankFrom = st.RankFrom
		}
		calls[k].args = append(calls[k].args, st.Key, record.State(st.State), rankFrom)
		indexes[k] = append(indexes[k], i)
	}
	sh.eval(ctx, sh.ask, calls)
	byIndex := make(map[int]store.Difference)
	for k, c := range calls {
		if c.err != nil {
			return nil, c.err
		}
		if err := readDifferences(c.reply, indexes[k], byIndex); err != nil {
			return nil, err
		}
	}
	differences := make([]store.Difference, 0, len(byIndex))
	for i := range states {
		if d, ok := byIndex[i]; ok {
			if sh.quiet() > 0 && !d.Missing {
				d.LookIn = -1
			}
			differences = append(differences, d)
		}
	}
	return differences, nil
}

// readDifferences reads "index firing_ms look_in_ms head" or "index missing" for each.
func readDifferences(reply []any, indexes []int, into map[int]store.Difference) error {
	all, err := texts(reply, 0, len(reply))
	if err != nil {
		return fmt.Errorf("%w: ask: %w", timer.ErrUnavailable, err)
	}
	for _, text := range all {
		r := reader{text: text}
		k := r.int64()
		if r.err != nil || k < 0 || int(k) >= len(indexes) {
			return fmt.Errorf("%w: ask: %w", timer.ErrUnavailable, errReply)
		}
		d := store.Difference{Index: indexes[k], Missing: r.text == "missing"}
		if !d.Missing {
			d.Firing, d.LookIn, d.State = record.Milliseconds(r.int64()), record.Milliseconds(r.int64()), r.head().State
		}
		if r.err != nil {
			return fmt.Errorf("%w: ask: %w", timer.ErrUnavailable, r.err)
		}
		into[d.Index] = d
	}
	return nil
}
