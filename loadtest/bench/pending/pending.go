// Package pending puts many timers directly into a Redis, with the keys and records of
// lua/README.md: the API would take too long. Package pending also claims due timers, as a node
// does.
package pending

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/redis/go-redis/v9"

	"chronos/lua"
)

const (
	partitions = 16
	chunk      = 500 // timers a script call
	pipelined  = 8   // calls a round trip
	senders    = 2
	longest    = 150 // horizon of a claim, in ms
	grace      = 1000
)

const (
	putScript = `local scores, records = {}, {}
for i = 4, #ARGV do
  local due_ms = ARGV[1] + (i * 7919000) % ARGV[2]
  scores[#scores + 1], scores[#scores + 2] = string.format('%.0f', due_ms), ARGV[i]
  records[#records + 1] = ARGV[i]
  records[#records + 1] = '1L 01a1fb841564b7e9 00000000001 000 00 01 0000000000000 ' .. string.format('%+015d', due_ms) .. ' ' .. ARGV[3]
end
redis.call('ZADD', KEYS[1], unpack(scores))
redis.call('HSET', KEYS[2], unpack(records))
return 1`
	removeScript = `redis.call('ZREM', KEYS[1], unpack(ARGV))
redis.call('HDEL', KEYS[2], unpack(ARGV))
redis.call('HDEL', KEYS[3], unpack(ARGV))
return 1`
	// claimArguments are the arguments in claim.lua, as Claim passes the arguments.
	claimArguments = "horizon_ms limit node counter grace_ms leave_own_retries not_after_ms max_bytes neglected_ms\n"
)

// Shard is a Redis with timers. Not safe for concurrent use.
type Shard struct {
	client                   *redis.Client
	body                     string // JSON of each record
	made                     uint64 // number of keys so far
	put, remove, claim, grow string // scripts by their SHA-1
}

// New loads the scripts. body is the specification in all records.
func New(ctx context.Context, client *redis.Client, body string) (*Shard, error) {
	claim := lua.Scripts()["claim"]
	if !strings.Contains(claim, claimArguments) {
		return nil, errors.New("load scripts: claim.lua takes other arguments than the bench gives it")
	}
	s := &Shard{client: client, body: body}
	for _, script := range []struct {
		source string
		sha    *string
	}{{putScript, &s.put}, {removeScript, &s.remove}, {claim, &s.claim}, {growScript, &s.grow}} {
		sha, err := client.ScriptLoad(ctx, script.source).Result()
		if err != nil {
			return nil, fmt.Errorf("load scripts: %w", err)
		}
		*script.sha = sha
	}
	return s, nil
}

func keys(partition int) []string {
	prefix := fmt.Sprintf("chronos:{http.%02d}:", partition)
	return []string{prefix + "due", prefix + "timers", prefix + "leases"}
}

// call is a call of a script on a partition.
type call struct {
	sha       string
	partition int
	arguments []any
}

// Fill adds n timers that are due after in, spread over a further span.
func (s *Shard) Fill(ctx context.Context, n int, in, span time.Duration) error {
	_, err := s.add(ctx, n, time.Now().Add(in), span)
	return err
}

// growScript makes Redis continue to grow its tables: Redis grows a table by a step with each
// access.
const growScript = `
for _ = 1, tonumber(ARGV[1]) do
  redis.call('HGET', KEYS[2], '')
  redis.call('ZSCORE', KEYS[1], '')
end
return 0
`

// Grow completes the growth of the tables for n timers. Without Grow, the next measurement would
// include the growth.
func (s *Shard) Grow(ctx context.Context, n int) error {
	const steps = 20_000
	return s.send(ctx, func(emit func(call) bool) {
		for range n/partitions/steps + 1 {
			for p := range partitions {
				if !emit(call{sha: s.grow, partition: p, arguments: []any{steps}}) {
					return
				}
			}
		}
	})
}

// MakeDue adds n timers that are due already, and returns the keys by partition.
func (s *Shard) MakeDue(ctx context.Context, n int) ([][]any, error) {
	return s.add(ctx, n, time.Now().Add(-time.Second), time.Millisecond)
}

// add adds n timers, and returns the keys if n is small.
func (s *Shard) add(ctx context.Context, n int, due time.Time, span time.Duration) ([][]any, error) {
	const few = 100_000
	made := make([][]any, partitions)
	var waiting [partitions][]any
	err := s.send(ctx, func(emit func(call) bool) {
		flush := func(p int) bool {
			head := []any{due.UnixMilli(), span.Milliseconds(), s.body}
			c := call{sha: s.put, partition: p, arguments: append(head, waiting[p]...)}
			if n <= few {
				made[p] = append(made[p], waiting[p]...)
			}
			waiting[p] = nil
			return emit(c)
		}
		for range n {
			key := s.key()
			p := int(xxhash.Sum64String(key) % partitions)
			if waiting[p] = append(waiting[p], key); len(waiting[p]) == chunk && !flush(p) {
				return
			}
		}
		for p := range waiting {
			if len(waiting[p]) > 0 && !flush(p) {
				return
			}
		}
	})
	return made, err
}

// key makes a key like a node's: 32 hexadecimal digits.
func (s *Shard) key() string {
	s.made++
	var seed, raw [16]byte
	binary.BigEndian.PutUint64(seed[:], s.made)
	binary.BigEndian.PutUint64(raw[:], xxhash.Sum64(seed[:]))
	seed[15] = 1
	binary.BigEndian.PutUint64(raw[8:], xxhash.Sum64(seed[:]))
	return hex.EncodeToString(raw[:])
}

// Remove removes the timers that MakeDue added.
func (s *Shard) Remove(ctx context.Context, made [][]any) error {
	return s.send(ctx, func(emit func(call) bool) {
		for p, list := range made {
			for len(list) > 0 {
				n := min(chunk, len(list))
				if !emit(call{sha: s.remove, partition: p, arguments: list[:n]}) {
					return
				}
				list = list[n:]
			}
		}
	})
}

// send pipelines the calls that each emits. emit returns false when more calls are of no use.
func (s *Shard) send(ctx context.Context, each func(emit func(call) bool)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	calls := make(chan []call, senders)
	var all sync.WaitGroup
	for range senders {
		all.Go(func() {
			for list := range calls {
				if err := s.round(ctx, list); err != nil {
					cancel(err)
				}
			}
		})
	}
	var list []call
	emit := func(c call) bool {
		if list = append(list, c); len(list) == pipelined {
			calls <- list
			list = nil
		}
		return ctx.Err() == nil
	}
	each(emit)
	if len(list) > 0 {
		calls <- list
	}
	close(calls)
	all.Wait()
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("put timers into Redis: %w", err)
	}
	return nil
}

func (s *Shard) round(ctx context.Context, list []call) error {
	_, err := s.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, c := range list {
			pipe.EvalSha(ctx, c.sha, keys(c.partition), c.arguments...)
		}
		return nil
	})
	return err
}

// Claim claims all due timers by calls of 500, and fails if the number of timers is not want.
func (s *Shard) Claim(ctx context.Context, want int) error {
	got, counter := 0, 0
	for p := range partitions {
		for {
			counter++
			notAfter := time.Now().Add(time.Minute).UnixMilli()
			reply, err := s.client.EvalSha(ctx, s.claim, keys(p), longest, chunk, "bench", strconv.Itoa(counter), grace, "0",
				notAfter, 1<<30, 0).Slice()
			if err != nil {
				return fmt.Errorf("claim timers: %w", err)
			}
			got += (len(reply) - 1) / 3
			if len(reply)%3 != 2 { // no "more" at the end
				break
			}
		}
	}
	if got != want {
		return fmt.Errorf("claim timers: %d came, want %d", got, want)
	}
	return nil
}
