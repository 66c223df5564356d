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
	key, err := s.store.NewKey()
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
	return s.create(ctx, OnceKey(idempotencyKey), hashOf(body), &t)
}

func hashOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:16])
}

func (s *Scheduler) create(ctx context.Context, key, bodyHash string, t *Timer) (Receipt, error) {
	w, err := s.newCreate(key, bodyHash, t)
	if err != nil {
		return Receipt{}, err
	}
	return s.write(ctx, &w)
}

func (s *Scheduler) newCreate(key, bodyHash string, t *Timer) (Write, error) {
	t.ReplicationFactor = cmp.Or(t.ReplicationFactor, DefaultReplicationFactor)
	if err := s.validate(t); err != nil {
		return Write{}, err
	}
	w := s.newWrite(ID{Key: key, RF: t.ReplicationFactor}, t)
	w.BodyHash = bodyHash
	return w, nil
}

// Creation is one timer of a CreateAll, and what came of it.
type Creation struct {
	Timer Timer
	// IdempotencyKey makes it a CreateOnce with this Body; "" for a plain Create.
	IdempotencyKey string
	Body           []byte

	// Receipt and Err are set by CreateAll, as Create and CreateOnce would return
	// them. What has an Err before is left alone.
	Receipt Receipt
	Err     error
}

// CreateAll is Create, or CreateOnce, of many timers at once: they go to their
// shards together, and each gets its own answer.
func (s *Scheduler) CreateAll(ctx context.Context, all []Creation) {
	attempts, of := make([]attempt, 0, len(all)), make([]*Creation, 0, len(all))
	for i := range all {
		n := &all[i]
		if n.Err != nil {
			continue
		}
		var w Write
		if w, n.Err = s.newOf(n); n.Err == nil {
			attempts, of = append(attempts, attempt{write: w}), append(of, n)
		}
	}
	s.writeAll(ctx, attempts)
	for i, n := range of {
		n.Receipt, n.Err = attempts[i].receipt, attempts[i].err
	}
}

func (s *Scheduler) newOf(n *Creation) (Write, error) {
	if n.IdempotencyKey != "" {
		return s.newCreate(OnceKey(n.IdempotencyKey), hashOf(n.Body), &n.Timer)
	}
	key, err := s.store.NewKey()
	if err != nil {
		return Write{}, err
	}
	return s.newCreate(key, "", &n.Timer)
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

// attempt is what has become of a write so far.
type attempt struct {
	write      Write
	receipt    Receipt
	err        error // of the last try
	unanswered bool  // it was sent before, and may have been executed
	over       bool
}

// write merges w, if need be as a newer version.
func (s *Scheduler) write(ctx context.Context, w *Write) (Receipt, error) {
	attempts := []attempt{{write: *w}}
	s.writeAll(ctx, attempts)
	return attempts[0].receipt, attempts[0].err
}

// writeAll merges each attempt's write, together in each try, until all are over.
func (s *Scheduler) writeAll(ctx context.Context, attempts []attempt) {
	open := make([]*attempt, len(attempts))
	for i := range attempts {
		open[i] = &attempts[i]
	}
	pause := false
	for try := range maxWriteTries {
		if len(open) == 0 || try > 0 && pause && !sleep(ctx, resendPause) {
			break
		}
		writes := make([]Write, len(open))
		for i, a := range open {
			writes[i] = a.write
		}
		still := open[:0]
		pause = false
		for i, answer := range s.store.Merge(ctx, writes) {
			if s.judge(open[i], &answer); !open[i].over {
				pause = pause || open[i].err != nil
				still = append(still, open[i])
			}
		}
		open = still
	}
	for _, a := range open {
		if a.err == nil {
			a.err = errOvertaken
		}
	}
}

var errOvertaken = fmt.Errorf("%w: other writes to this timer kept coming first", ErrUnavailable)

// judge takes the answer to a try. If the attempt isn't over, it is to be tried
// again.
func (s *Scheduler) judge(a *attempt, answer *Written) {
	w := &a.write
	a.err = answer.Err
	a.over = true
	switch {
	case errors.Is(a.err, ErrUnavailable):
		a.unanswered, a.over = true, false
	case a.err != nil && a.unanswered:
		a.err = fmt.Errorf("%w: sent before without an answer, and now: %v", ErrUnavailable, a.err) //nolint:errorlint // that nothing was done is true of the last try alone
	case a.err != nil:
	case answer.Status == WriteStored, answer.Status == WriteSame:
		a.receipt = s.written(answer, w)
	case answer.Status == WriteFactor:
		a.err = factorChanged(answer.ID.RF)
	case answer.Status == WriteExists && answer.BodyHash != w.BodyHash:
		a.err = ErrKeyReused
	case answer.Status == WriteExists:
		a.receipt = s.written(answer, w)
		a.receipt.Replayed = !a.unanswered || answer.State.Version != w.Version
	case a.unanswered && answer.State.Version == w.Version:
		// What is newer than the write is what has become of it since: it fires.
		answer.Copies = max(answer.Copies, 1)
		a.receipt = s.written(answer, w)
	default:
		w.Version, a.unanswered, a.over = answer.State.Version.Above(s.tag), false, false
	}
}

func (s *Scheduler) written(answer *Written, w *Write) Receipt {
	if w.Timer != nil && !answer.State.Ended {
		s.poke(answer.Shard, answer.Partition, answer.Wait)
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
