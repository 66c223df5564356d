package shard

import (
	"cmp"
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1; the hash protects nothing here.
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

// Call is a script on a partition, and the reply.
type Call struct {
	Script string
	Keys   []string
	Args   []any

	NowUs int64 // the shard's clock when the script ran
	Reply []any // without the clock
	Err   error // wraps ErrUnavailable
}

var (
	// ErrReply says that a reply does not fit the script.
	ErrReply = errors.New("unexpected reply")
	// ErrLate says that a call came too late to the shard, and was not executed.
	ErrLate = errors.New("executed after its not-after")
)

// Eval runs the calls in one round trip. Calls whose script the shard has lost go out in a second round trip with the
// script's source. Eval learns the shard's clock. A call's reply is without the leading now_us; a call's error wraps
// ErrUnavailable. A caller whose ctx ends no longer waits. The answer is read all the same, so that the next caller
// finds a connection.
func (s *Shard) Eval(ctx context.Context, client redis.UniversalClient, calls []*Call) {
	err := s.Ready(ctx)
	if err == nil && ctx.Done() == nil {
		s.converse(ctx, client, calls)
		return
	}
	if err == nil {
		err = s.converseUntil(ctx, client, calls)
	}
	if err != nil {
		for _, c := range calls {
			c.Err = err
		}
	}
}

// converseUntil is converse, but the caller waits only until ctx ends.
func (s *Shard) converseUntil(ctx context.Context, client redis.UniversalClient, calls []*Call) error {
	// The deadline is looked at, too: right after a stop of the process, ctx may not know yet that ctx has ended. The
	// arguments say by when the shard executes the calls.
	if deadline, ok := ctx.Deadline(); ctx.Err() != nil || ok && !time.Now().Before(deadline) {
		return s.impatient(ctx)
	}
	own, lasting := make([]*Call, len(calls)), context.WithoutCancel(ctx)
	for i, c := range calls {
		own[i] = &Call{Script: c.Script, Keys: c.Keys, Args: c.Args}
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

// impatient is the error of a caller that waited no longer. The error says nothing of the shard's state.
func (s *Shard) impatient(ctx context.Context) error {
	return fmt.Errorf("%w: shard %s: %w", timer.ErrUnavailable, s.name, cmp.Or(context.Cause(ctx), context.DeadlineExceeded))
}

func (s *Shard) converse(ctx context.Context, client redis.UniversalClient, calls []*Call) {
	missing := s.round(ctx, client, calls, func(pipe redis.Pipeliner, c *Call) *redis.Cmd {
		return pipe.EvalSha(ctx, s.scripts[c.Script].sha, c.Keys, c.Args...)
	})
	if len(missing) > 0 {
		s.round(ctx, client, missing, func(pipe redis.Pipeliner, c *Call) *redis.Cmd {
			return pipe.Eval(ctx, s.scripts[c.Script].source, c.Keys, c.Args...)
		})
	}
}

func (s *Shard) round(ctx context.Context, client redis.UniversalClient, calls []*Call,
	send func(redis.Pipeliner, *Call) *redis.Cmd,
) (missing []*Call) {
	pipe := client.Pipeline()
	commands := make([]*redis.Cmd, len(calls))
	for i, c := range calls {
		commands[i] = send(pipe, c)
	}
	sent := s.Clock.Now()
	_, err := pipe.Exec(ctx)
	for i, c := range calls {
		if commands[i].Val() == nil && commands[i].Err() == nil {
			commands[i].SetErr(err) // a failure before anything is sent leaves no error at the commands
		}
		c.NowUs, c.Reply, c.Err = s.read(sent, commands[i])
		if c.Err != nil && strings.Contains(c.Err.Error(), "NOSCRIPT") {
			missing = append(missing, c)
		}
	}
	return missing
}

func (s *Shard) read(sent time.Duration, command *redis.Cmd) (nowUs int64, reply []any, err error) {
	reply, err = command.Slice()
	if err != nil {
		return 0, nil, s.Unavailable(err)
	}
	if len(reply) == 0 {
		return 0, nil, s.Unavailable(ErrReply)
	}
	nowUs, ok := reply[0].(int64)
	if !ok {
		return 0, nil, s.Unavailable(ErrReply)
	}
	s.Clock.Learn(sent, nowUs)
	if len(reply) == 2 && reply[1] == "late" {
		return 0, nil, s.Unavailable(ErrLate)
	}
	return nowUs, reply[1:], nil
}

// Do runs one script; the script answers with at least one text.
func (s *Shard) Do(ctx context.Context, script string, keys []string, args ...any) ([]string, error) {
	c := &Call{Script: script, Keys: keys, Args: args}
	s.Eval(ctx, s.Poll, []*Call{c})
	words, err := s.Texts(c)
	if err == nil && len(words) == 0 {
		err = s.Unavailable(ErrReply)
	}
	return words, err
}

// Texts is the reply of a call that answers only with texts.
func (s *Shard) Texts(c *Call) ([]string, error) {
	if c.Err != nil {
		return nil, c.Err
	}
	words, err := texts(c.Reply, 0, len(c.Reply))
	if err != nil {
		return nil, s.Unavailable(err)
	}
	return words, nil
}

// texts returns n strings of a reply from index i on.
func texts(reply []any, i, n int) ([]string, error) {
	if i+n > len(reply) {
		return nil, fmt.Errorf("%w: %d items, want %d", ErrReply, len(reply), i+n)
	}
	out := make([]string, n)
	for k := range out {
		text, ok := reply[i+k].(string)
		if !ok {
			return nil, fmt.Errorf("%w: item %d is no string", ErrReply, i+k)
		}
		out[k] = text
	}
	return out, nil
}
