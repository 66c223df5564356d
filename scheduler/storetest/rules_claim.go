package storetest

import (
	"math"
	"slices"
	"time"

	"chronos/scheduler/store"
)

// The numbers of timers that a claim looks at together, and of tombstones that a claim removes, as in the scripts.
// The bounds decide how many tombstones are removed.
const (
	pageSize    = 50
	maxBuried   = 500
	lookAgainMs = 10_000 // for a tombstone that is to stay
)

// claim leases the timers that are due within the horizon, leased timers once their lease has ended, and removes
// tombstones whose life is over. A claim that reached a bound reports that more may be due.
func (s *shard) claim(now time.Time, node, token string, req store.ClaimRequest) (_ []store.Claimed, more bool) {
	nowMs := now.UnixMilli()
	var claims []store.Claimed
	buried, bytes, most := 0, 0, req.MaxBytes
	if most <= 0 {
		most = math.MaxInt
	}
	horizonMs := req.Horizon.Milliseconds()
	if req.Neglected > 0 {
		horizonMs = 0
	}
	due := slices.DeleteFunc(s.dueBy(nowMs+horizonMs), func(key string) bool {
		return req.Partitions != nil && !slices.Contains(req.Partitions, PartitionOf(key))
	})
	for page := range slices.Chunk(due, pageSize) {
		for _, key := range page {
			e := s.entries[key]
			over := e.lookMs <= nowMs
			switch {
			case e.lease != nil && !over, e.state.Ended && !over:
			case e.state.Ended && (nowMs-e.lookMs < req.KeepTombstones.Milliseconds() || s.marked(key)):
				e.lookMs = nowMs + lookAgainMs
				buried++
			case e.state.Ended && len(e.away) == 0:
				delete(s.entries, key)
				buried++
			case e.leave(nowMs, node, req) || len(claims) >= req.Limit || bytes >= most:
			default:
				bytes += len(e.timer.Callback.URI) + len(e.timer.Callback.Opaque)
				claims = append(claims, s.lease(now, key, token, max(e.lookMs, nowMs)+ceilMs(req.Grace)))
			}
		}
		if len(claims) >= req.Limit || bytes >= most || buried >= maxBuried {
			return claims, true
		}
	}
	return claims, false
}

// leave reports whether the copy is left to another node for now: a retry of a pop at which this node failed, or a
// copy that another node polls and has not neglected yet.
func (e *entry) leave(nowMs int64, node string, req store.ClaimRequest) bool {
	if e.lease != nil {
		return false
	}
	failed := ""
	if e.state.Attempt > 0 {
		failed = e.failure.Node
	}
	own := req.LeaveOwnRetries && nowMs < e.lookMs+1000 && !e.endsWithin(nowMs+500)
	others := req.Neglected > 0 && nowMs < e.lookMs+req.Neglected.Milliseconds()
	return own && failed == node || others && (failed == "" || failed == node)
}

// endsWithin reports whether the pop behind the next pop is due by then.
func (e *entry) endsWithin(byMs int64) bool {
	next := int64(e.state.Seq + 1)
	return e.timer.RepeatFor > 0 && next*e.intervalMs <= e.timer.RepeatFor.Milliseconds() && e.startMs+next*e.intervalMs <= byMs
}

// PartitionOf is the partition of a key in a Model.
func PartitionOf(key string) int { return int(hash(key) % store.Partitions) }

func (s *shard) lease(now time.Time, key, token string, untilMs int64) store.Claimed {
	e := s.entries[key]
	claimed := store.Claimed{
		Lease: store.Lease{Shard: s.name, Key: key, Token: token, Partition: PartitionOf(key), Found: store.Found{ScoreMs: e.lookMs, State: e.state}}, Record: s.record(key, e),
		DueIn: time.UnixMilli(e.lookMs).Sub(now),
	}
	if e.lease != nil {
		claimed.Previous, claimed.PreviousFired = nodeOf(e.lease.token), e.lease.fired
	}
	e.lease, e.lookMs = &lease{token: token}, untilMs
	return claimed
}
