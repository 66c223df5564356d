package scheduler

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// What one client request may cost in tries. A try that was refused as older
// goes above what is stored; one without answer is sent again as it was.
const (
	maxWriteTries = 5
	resendPause   = 30 * time.Millisecond
)

// Create stores a new timer under a key of ours. Errors: *InvalidError,
// ErrUnavailable, with which the timer may exist, ErrOverloaded.
func (s *Scheduler) Create(ctx context.Context, t Timer) (Receipt, error) {
	key, err := NewKey()
	if err != nil {
		return Receipt{}, err
	}
	return s.create(ctx, key, "", &t)
}

// CreateOnce is Create for a request that may come again, with the same
// idempotency key and body: then the receipt is that of the timer that the first
// one made, until CHRONOS_IDEMPOTENCY_LIFE after it was over. ErrKeyReused says
// that the body is another; its other errors are those of Create.
func (s *Scheduler) CreateOnce(ctx context.Context, idempotencyKey string, body []byte, t Timer) (Receipt, error) {
	sum := sha256.Sum256(body)
	return s.create(ctx, OnceKey(idempotencyKey), hex.EncodeToString(sum[:16]), &t)
}

func (s *Scheduler) create(ctx context.Context, key, bodyHash string, t *Timer) (Receipt, error) {
	t.ReplicationFactor = cmp.Or(t.ReplicationFactor, DefaultReplicationFactor)
	if err := s.validate(t); err != nil {
		return Receipt{}, err
	}
	w := s.newWrite(ID{Key: key, RF: t.ReplicationFactor}, t)
	w.BodyHash = bodyHash
	return s.write(ctx, &w)
}

// Replace makes t the timer of this id, or creates it: a new start, a sequence
// from 1. A replication factor of 0 stands for the timer's own; another than its
// own is refused. After the answer no callback of the earlier timer starts; if it
// says in flight, none starts later than 2 s after it. Errors as Create.
func (s *Scheduler) Replace(ctx context.Context, id ID, t Timer) (Receipt, error) {
	asked := t.ReplicationFactor
	t.ReplicationFactor = cmp.Or(asked, id.RF, DefaultReplicationFactor)
	switch err := s.validate(&t); {
	case err != nil:
		return Receipt{}, err
	case id.RF != 0 && id.RF != t.ReplicationFactor:
		return Receipt{}, factorChanged(id.RF)
	}
	if asked == 0 && id.RF == 0 {
		stored, err := s.Lookup(ctx, id)
		switch {
		case err == nil:
			t.ReplicationFactor = stored.Record.ID.RF
		case !errors.Is(err, ErrNotFound):
			return Receipt{}, err
		}
	}
	w := s.newWrite(ID{Key: id.Key, RF: t.ReplicationFactor, Hint: id.Hint}, &t)
	return s.write(ctx, &w)
}

func factorChanged(own int) error {
	return invalid("/reliability/replication-factor", "replication-factor-changed",
		"the replication factor of a timer can't be changed; it is %d: leave it out and use the id that was answered, or delete the timer and create another", own)
}

// Delete ends the timer of this id, known or not, once or again. After the answer
// no callback of it starts; if it says in flight, none starts later than 2 s
// after it. Errors: ErrUnavailable, ErrOverloaded.
func (s *Scheduler) Delete(ctx context.Context, id ID) (Receipt, error) {
	w := s.newWrite(id, nil)
	receipt, err := s.write(ctx, &w)
	receipt.Due = time.Time{}
	return receipt, err
}

// Lookup reads a timer. Errors: ErrNotFound, ErrUnavailable.
func (s *Scheduler) Lookup(ctx context.Context, id ID) (ReadResult, error) {
	result := s.store.Read(ctx, []ID{id})[0]
	return result, result.Err
}

func (s *Scheduler) validate(t *Timer) error {
	if err := t.Validate(); err != nil {
		return err
	}
	if t.At.Sub(s.config.Wall()) > MaxInterval {
		return invalid("/timing/at", "at-too-late", "at is over 100 years ahead; give an earlier instant")
	}
	return s.deliverer.Check(t.Callback)
}

// newWrite is a new version of the timer, nil for its end.
func (s *Scheduler) newWrite(id ID, t *Timer) Write {
	w := Write{
		ID: id, Version: VersionAt(s.config.Wall(), s.tag), Timer: t, Life: s.config.TombLife, Keep: s.config.IdempotencyLife,
	}
	if t != nil {
		w.Skew = s.config.Skew.Of(t.Interval, t.ReplicationFactor)
	}
	return w
}

// write merges w, if need be as a newer version.
func (s *Scheduler) write(ctx context.Context, w *Write) (Receipt, error) {
	var last error
	unanswered := false // w was sent before, and may have been executed
	for try := range maxWriteTries {
		if try > 0 && last != nil && !sleep(ctx, resendPause) {
			break
		}
		answer := s.store.Merge(ctx, []Write{*w})[0]
		last = answer.Err
		switch {
		case errors.Is(last, ErrUnavailable):
			unanswered = true
			continue
		case last != nil && unanswered:
			return Receipt{}, fmt.Errorf("%w: sent before without an answer, and now: %v", ErrUnavailable, last) //nolint:errorlint // that nothing was done is true of the last try alone
		case last != nil:
			return Receipt{}, last
		case answer.Status == WriteStored, answer.Status == WriteSame:
			return s.written(&answer, w), nil
		case answer.Status == WriteFactor:
			return Receipt{}, factorChanged(answer.ID.RF)
		case answer.Status == WriteExists && answer.BodyHash != w.BodyHash:
			return Receipt{}, ErrKeyReused
		case answer.Status == WriteExists:
			receipt := s.written(&answer, w)
			receipt.Replayed = !unanswered || answer.State.Version != w.Version
			return receipt, nil
		case unanswered && answer.State.Version == w.Version:
			// What is newer than the write is what has become of it since: it fires.
			answer.Copies = max(answer.Copies, 1)
			return s.written(&answer, w), nil
		}
		w.Version, unanswered = answer.State.Version.Above(s.tag), false
	}
	if last == nil {
		last = fmt.Errorf("%w: other writes to this timer kept coming first", ErrUnavailable)
	}
	return Receipt{}, last
}

func (s *Scheduler) written(answer *Written, w *Write) Receipt {
	if w.Timer != nil && !answer.State.Ended {
		s.poke(answer.Shard, answer.Wait)
	}
	return Receipt{
		ID: answer.ID, Due: answer.Due, Copies: answer.Copies, Unreached: answer.Unreached, InFlight: answer.InFlight,
	}
}

// sleep waits for d and reports whether ctx lasted.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
