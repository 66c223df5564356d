package redisstore

import (
	"cmp"
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1; it protects nothing here.
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"chronos/lua"
	"chronos/scheduler/timer"
)

type script struct{ name, sha, source string }

type scripts map[string]script

func loadScripts() scripts {
	all := scripts{}
	for name, source := range lua.Scripts() {
		sum := sha1.Sum([]byte(source)) //nolint:gosec // as above
		all[name] = script{name: name, sha: hex.EncodeToString(sum[:]), source: source}
	}
	return all
}

// call is one script on one partition, and its reply.
type call struct {
	script string
	keys   []string
	args   []any

	nowUs int64 // the shard's clock when it ran
	reply []any // what follows it
	err   error
}

var (
	errReply = errors.New("unexpected reply")
	errLate  = errors.New("executed after its not-after")
)

// eval runs the calls in one round trip, and those whose script the shard has
// lost in a second one with their source. It learns the shard's clock. Each
// call's reply is without the leading now_us; each error wraps ErrUnavailable. A caller
// whose ctx ends no longer waits; the answer is read all the same, so that the next
// caller finds a connection.
func (s *shard) eval(ctx context.Context, client redis.UniversalClient, calls []*call) {
	err := s.ready(ctx)
	if err == nil && ctx.Done() == nil {
		s.converse(ctx, client, calls)
		return
	}
	if err == nil {
		err = s.converseUntil(ctx, client, calls)
	}
	if err != nil {
		for _, c := range calls {
			c.err = err
		}
	}
}

// converseUntil is converse, for which the caller waits until ctx ends.
func (s *shard) converseUntil(ctx context.Context, client redis.UniversalClient, calls []*call) error {
	// The deadline is looked at, too: right after a stop of the process, ctx does not know
	// yet that it has ended. The arguments say by when the shard executes the calls.
	if deadline, ok := ctx.Deadline(); ctx.Err() != nil || ok && !time.Now().Before(deadline) {
		return s.impatient(ctx)
	}
	own, lasting := make([]*call, len(calls)), context.WithoutCancel(ctx)
	for i, c := range calls {
		own[i] = &call{script: c.script, keys: c.keys, args: c.args}
	}
	done := make(chan struct{})
	s.under.Go(func() {
		defer close(done)
		s.converse(lasting, client, own)
	})
	select {
	case <-done:
	case <-ctx.Done():
		select {
		case <-done: // in time, while this goroutine waited for a processor
		default:
			return s.impatient(ctx)
		}
	}
	for i, c := range own {
		*calls[i] = *c
	}
	return nil
}

// impatient is the error of a caller that waited no longer. It says nothing of the
// shard's state.
func (s *shard) impatient(ctx context.Context) error {
	return fmt.Errorf("%w: shard %s: %w", timer.ErrUnavailable, s.name, cmp.Or(context.Cause(ctx), context.DeadlineExceeded))
}

func (s *shard) converse(ctx context.Context, client redis.UniversalClient, calls []*call) {
	missing := s.round(ctx, client, calls, func(pipe redis.Pipeliner, c *call) *redis.Cmd {
		return pipe.EvalSha(ctx, s.scripts[c.script].sha, c.keys, c.args...)
	})
	if len(missing) > 0 {
		s.round(ctx, client, missing, func(pipe redis.Pipeliner, c *call) *redis.Cmd {
			return pipe.Eval(ctx, s.scripts[c.script].source, c.keys, c.args...)
		})
	}
}

func (s *shard) round(ctx context.Context, client redis.UniversalClient, calls []*call,
	send func(redis.Pipeliner, *call) *redis.Cmd,
) (missing []*call) {
	pipe := client.Pipeline()
	commands := make([]*redis.Cmd, len(calls))
	for i, c := range calls {
		commands[i] = send(pipe, c)
	}
	sent := s.clock.now()
	_, err := pipe.Exec(ctx)
	for i, c := range calls {
		if commands[i].Val() == nil && commands[i].Err() == nil {
			commands[i].SetErr(err) // what fails before anything is sent leaves no error at the commands
		}
		c.nowUs, c.reply, c.err = s.read(sent, commands[i])
		if c.err != nil && strings.Contains(c.err.Error(), "NOSCRIPT") {
			missing = append(missing, c)
		}
	}
	return missing
}

func (s *shard) read(sent time.Duration, command *redis.Cmd) (nowUs int64, reply []any, err error) {
	reply, err = command.Slice()
	if err != nil {
		return 0, nil, s.unavailable(err)
	}
	if len(reply) == 0 {
		return 0, nil, s.unavailable(errReply)
	}
	nowUs, ok := reply[0].(int64)
	if !ok {
		return 0, nil, s.unavailable(errReply)
	}
	s.clock.learn(sent, nowUs)
	if len(reply) == 2 && reply[1] == "late" {
		return 0, nil, s.unavailable(errLate)
	}
	return nowUs, reply[1:], nil
}

// texts returns n strings of a reply from index i on.
func texts(reply []any, i, n int) ([]string, error) {
	if i+n > len(reply) {
		return nil, fmt.Errorf("%w: %d items, want %d", errReply, len(reply), i+n)
	}
	out := make([]string, n)
	for k := range out {
		text, ok := reply[i+k].(string)
		if !ok {
			return nil, fmt.Errorf("%w: item %d is no string", errReply, i+k)
		}
		out[k] = text
	}
	return out, nil
}
