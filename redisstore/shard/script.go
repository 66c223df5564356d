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

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"chronos/lua"
	"chronos/scheduler/timer"
)

type script struct{ sha, source string }

// scripts are the scripts for one partition, and the scripts for several partitions, by name.
type scripts struct{ alone, together map[string]script }

func loadScripts() scripts {
	load := func(sources map[string]string) map[string]script {
		all := map[string]script{}
		for name, source := range sources {
			sum := sha1.Sum([]byte(source)) //nolint:gosec // as above
			all[name] = script{sha: hex.EncodeToString(sum[:]), source: source}
		}
		return all
	}
	return scripts{alone: load(lua.Scripts()), together: load(lua.ForPartitions())}
}

// Call is a script on a partition, and the reply.
type Call struct {
	Script string
	Keys   []string
	Args   []any
	Items  int // how many timers the call is about at most; 0 for a call that is carried out by itself
	Bytes  int // about how long arguments and reply are

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

// Eval runs the calls in one round trip, and calls of one script about few timers together (command). Commands whose
// script the shard has lost go out in a second round trip with the script's source. Eval learns the shard's clock. A
// call's reply is without the leading now_us; a call's error wraps ErrUnavailable. A caller whose ctx ends no longer waits.
// The answer is read all the same, so that the next caller finds a connection.
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
		own[i] = &Call{Script: c.Script, Keys: c.Keys, Args: c.Args, Items: c.Items, Bytes: c.Bytes}
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
	again := s.round(ctx, client, s.commands(client, calls), false)
	if len(again) > 0 {
		s.round(ctx, client, again, true)
	}
}

// round sends commands, with the scripts' sources if whole, and returns what must be sent once more: commands whose
// script the shard has lost, and the calls of commands that must be sent one by one. A script for one partition and the
// same script for several partitions come together: calls grow just when a shard is slow and a further round trip hurts.
func (s *Shard) round(ctx context.Context, client redis.UniversalClient, commands []command, whole bool) (again []command) {
	pipe := client.Pipeline()
	sent := make([]*redis.Cmd, len(commands))
	for i, c := range commands {
		keys, args := c.arguments()
		if whole {
			sent[i] = pipe.Eval(ctx, c.source, keys, args...)
			if s.takesPartitions(client) {
				pipe.ScriptLoad(ctx, s.twin(c))
			}
		} else {
			sent[i] = pipe.EvalSha(ctx, c.sha, keys, args...)
		}
	}
	at := s.Clock.Now()
	began := time.Now()
	_, err := pipe.Exec(ctx)
	s.observe(commands, time.Since(began))
	for i, c := range commands {
		if sent[i].Val() == nil && sent[i].Err() == nil {
			sent[i].SetErr(err) // a failure before anything is sent leaves no error at the commands
		}
		replies, err := c.replies(sent[i])
		for k, call := range c.calls {
			call.NowUs, call.Reply, call.Err = s.read(at, replies[k], err)
		}
		switch {
		case err == nil:
		case strings.Contains(err.Error(), "NOSCRIPT"):
			again = append(again, c)
		case len(c.calls) > 1 && strings.Contains(err.Error(), "CROSSSLOT"):
			s.apart.Store(true)
			again = append(again, s.commands(client, c.calls)...)
		}
	}
	return again
}

// durationsOf are the observers of a shard by script. The scripts beside those of the usual work have the same
// observer, which keeps down the number of series.
func (s *Shard) durationsOf(all prometheus.ObserverVec) map[string]prometheus.Observer {
	if all == nil {
		return nil
	}
	by := make(map[string]prometheus.Observer, len(s.scripts.alone))
	for name := range s.scripts.alone {
		label := name
		switch name {
		case "claim", "fire", "settle", "merge":
		default:
			label = "other"
		}
		by[name] = all.WithLabelValues(s.name, label)
	}
	return by
}

// observe tells how long a round trip took, once for each command.
func (s *Shard) observe(commands []command, took time.Duration) {
	if s.durations == nil {
		return
	}
	for i := range commands {
		if observer := s.durations[commands[i].calls[0].Script]; observer != nil {
			observer.Observe(took.Seconds())
		}
	}
}

// scriptError is the error of one of several calls of a command.
type scriptError string

func (e scriptError) Error() string { return string(e) }

// RedisError makes the error a redis.Error: the shard has answered.
func (scriptError) RedisError() {}

// read reads the answer to a call.
func (s *Shard) read(sent time.Duration, answer any, err error) (nowUs int64, reply []any, _ error) {
	if text, is := answer.(string); is && err == nil {
		err = scriptError(text)
	}
	if err != nil {
		return 0, nil, s.Unavailable(err)
	}
	reply, ok := answer.([]any)
	if !ok || len(reply) == 0 {
		return 0, nil, s.Unavailable(ErrReply)
	}
	if nowUs, ok = reply[0].(int64); !ok {
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
