package shard

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"chronos/scheduler/timer"
)

// answerError is an error that Redis answered.
type answerError string

func (e answerError) Error() string { return string(e) }
func (answerError) RedisError()     {}

// A new verification costs every caller a round trip, and callers of a late shard have no time for it. Only errors
// that may mean that the shard comes back as another process ask for a verification.
func TestOnlyALostShardIsVerifiedAgain(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]bool{
		io.EOF: false, errors.New("i/o timeout"): false, redis.ErrPoolTimeout: true,
		answerError("READONLY You can't write against a read only replica."): false,
		answerError("LOADING Redis is loading the dataset in memory"):        false,
		answerError("OOM command not allowed"):                               true,
	} {
		s := &Shard{name: "a"}
		s.verified.Store(true)
		if got := s.Unavailable(err); !errors.Is(got, timer.ErrUnavailable) && !errors.Is(got, timer.ErrRefused) || !errors.Is(got, err) {
			t.Errorf("%v: %v", err, got)
		}
		if got := s.verified.Load(); got != want {
			t.Errorf("after %v the shard counts as verified: %v, want %v", err, got, want)
		}
	}
}

// A caller without patience has seen no sign that the shard is away.
func TestImpatienceLeavesAVerifiedShardAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Shard{name: "a", checking: &check{done: make(chan struct{})}}
		ctx, cancel := context.WithCancel(t.Context())
		answered := make(chan error)
		go func() { answered <- s.Ready(ctx) }()
		synctest.Wait()
		s.verified.Store(true)
		cancel()
		if err := <-answered; !errors.Is(err, context.Canceled) || !errors.Is(err, timer.ErrUnavailable) {
			t.Errorf("error %v, want one of a caller that waited no longer", err)
		}
		if !s.verified.Load() {
			t.Error("the shard is to be verified once more")
		}
	})
}

// A call that a new process must not execute meets the new process once. Then the node knows of the loss.
func TestACallMeetsANewProcessFirst(t *testing.T) {
	t.Parallel()
	sh := openShard(t, miniredis.RunT(t), nil)
	client, is := sh.Poll.(*redis.Client)
	if !is {
		t.Fatalf("the client is a %T", sh.Poll)
	}
	for what, want := range map[context.Context]error{t.Context(): nil, SameProcess(t.Context()): ErrNewProcess} {
		before := "the process before"
		sh.identity.Store(&before)
		sh.verified.Store(true)
		sh.lostAt.Store(0)
		for _, want := range []error{want, nil} {
			if err := sh.meet(what, client.Conn()); !errors.Is(err, want) {
				t.Errorf("error %v, want %v", err, want)
			}
			if sh.Quiet() == 0 || sh.verified.Load() {
				t.Errorf("quiet for %v, verified %v: the loss is not noted", sh.Quiet(), sh.verified.Load())
			}
		}
	}
}
