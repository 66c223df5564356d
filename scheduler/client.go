package scheduler

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"chronos/scheduler/replica"
	"chronos/scheduler/resync"
	"chronos/scheduler/statistics"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// Create stores a new timer under a key of ours. Errors: *InvalidError,
// ErrUnavailable, with which the timer may exist, ErrOverloaded.
func (s *Scheduler) Create(ctx context.Context, t timer.Timer) (timer.Receipt, error) {
	key, err := s.copies.NewKey(&t)
	if err != nil {
		return timer.Receipt{}, err
	}
	return s.create(ctx, key, "", &t)
}

// CreateOnce is Create for a request that may come again, with the same
// idempotency key and body: then the receipt is that of the timer that the first
// one made, until CHRONOS_IDEMPOTENCY_LIFE after it was over. ErrKeyReused says
// that the body is another; its other errors are those of Create.
func (s *Scheduler) CreateOnce(ctx context.Context, idempotencyKey string, body []byte, t timer.Timer) (timer.Receipt, error) {
	return s.create(ctx, timer.OnceKey(idempotencyKey), hashOf(body), &t)
}

func hashOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:16])
}

func (s *Scheduler) create(ctx context.Context, key, bodyHash string, t *timer.Timer) (timer.Receipt, error) {
	w, err := s.newCreate(key, bodyHash, t)
	if err != nil {
		return timer.Receipt{}, err
	}
	return s.copies.Write(ctx, w)
}

func (s *Scheduler) newCreate(key, bodyHash string, t *timer.Timer) (replica.Wish, error) {
	t.ReplicationFactor = cmp.Or(t.ReplicationFactor, timer.DefaultReplicationFactor)
	if err := s.validate(t); err != nil {
		return replica.Wish{}, err
	}
	w := s.copies.NewWish(timer.ID{Key: key, RF: t.ReplicationFactor}, t)
	w.BodyHash, w.Fresh = bodyHash, bodyHash == ""
	return w, nil
}

// CreateAll is Create, or CreateOnce, of many timers at once: they go to their
// shards together, and each gets its own answer.
func (s *Scheduler) CreateAll(ctx context.Context, all []timer.Creation) {
	wishes, of := make([]replica.Wish, 0, len(all)), make([]*timer.Creation, 0, len(all))
	for i := range all {
		n := &all[i]
		if n.Err != nil {
			continue
		}
		var w replica.Wish
		if w, n.Err = s.newOf(n); n.Err == nil {
			wishes, of = append(wishes, w), append(of, n)
		}
	}
	for i, answer := range s.copies.WriteEach(ctx, wishes) {
		of[i].Receipt, of[i].Err = answer.Receipt, answer.Err
	}
}

func (s *Scheduler) newOf(n *timer.Creation) (replica.Wish, error) {
	if n.IdempotencyKey != "" {
		return s.newCreate(timer.OnceKey(n.IdempotencyKey), hashOf(n.Body), &n.Timer)
	}
	key, err := s.copies.NewKey(&n.Timer)
	if err != nil {
		return replica.Wish{}, err
	}
	return s.newCreate(key, "", &n.Timer)
}

// Replace makes t the timer of this id, or creates it: a new start, a sequence
// from 1. A replication factor of 0 stands for the timer's own; another than its
// own is refused. After the answer no callback of the earlier timer starts; if it
// says in flight, none starts later than 2 s after it. Errors as Create, and
// ErrOvertaken.
func (s *Scheduler) Replace(ctx context.Context, id timer.ID, t timer.Timer) (timer.Receipt, error) {
	asked := t.ReplicationFactor
	t.ReplicationFactor = cmp.Or(asked, id.RF, timer.DefaultReplicationFactor)
	switch err := s.validate(&t); {
	case err != nil:
		return timer.Receipt{}, err
	case id.RF != 0 && id.RF != t.ReplicationFactor:
		return timer.Receipt{}, replica.FactorChanged(id.RF)
	}
	begun := s.config.SinceBoot()
	defer s.copies.Queue(ctx, id.Key)()
	if id.RF == 0 {
		own, err := s.ownFactor(ctx, id)
		switch {
		case err != nil:
			return timer.Receipt{}, err
		case own != 0 && asked != 0 && asked != own:
			return timer.Receipt{}, replica.FactorChanged(own)
		case own != 0:
			t.ReplicationFactor = own
		}
	}
	w := s.copies.NewWish(timer.ID{Key: id.Key, RF: t.ReplicationFactor, Hint: id.Hint}, &t)
	w.Begun = begun
	return s.copies.Write(ctx, w)
}

// ownFactor is the replication factor with which a timer is stored, on which depends where
// its copies are; 0 if no copy was found. A shard that can't be asked is done without: a
// copy that was found elsewhere decides, and without one the timer counts as new.
func (s *Scheduler) ownFactor(ctx context.Context, id timer.ID) (int, error) {
	stored, err := s.Lookup(ctx, id)
	switch {
	case err == nil:
		return stored.Record.ID.RF, nil
	case errors.Is(err, timer.ErrNotFound), errors.Is(err, timer.ErrUnavailable):
		return 0, nil
	}
	return 0, err
}

// Delete ends the timer of this id, known or not, once or again. After the answer
// no callback of it starts; if it says in flight, none starts later than 2 s
// after it. Errors: ErrUnavailable, ErrOverloaded, ErrOvertaken.
func (s *Scheduler) Delete(ctx context.Context, id timer.ID) (timer.Receipt, error) {
	defer s.copies.Queue(ctx, id.Key)()
	return s.copies.Write(ctx, s.copies.NewWish(id, nil))
}

func (s *Scheduler) validate(t *timer.Timer) error {
	if err := t.Validate(); err != nil {
		return err
	}
	if err := s.checkInstant(t); err != nil {
		return err
	}
	return s.deliverer.Check(t.Callback)
}

func (s *Scheduler) checkInstant(t *timer.Timer) error {
	if t.At.Sub(s.config.Wall()) > timer.MaxInterval {
		return timer.Invalid("/timing/at", "at-too-late", "at is over 100 years ahead; give an earlier instant")
	}
	return nil
}

// Lookup reads the newest copy of a timer. Errors: ErrNotFound, if no shard has a live one;
// ErrUnavailable, if none has that could be asked, or this node doesn't know where
// timers belong.
func (s *Scheduler) Lookup(ctx context.Context, id timer.ID) (store.ReadResult, error) {
	return s.copies.Lookup(ctx, id)
}

// DropReferences removes those of the timers' copies on a shard that don't belong there, once
// the timer is up to date wherever it belongs: what nobody else has, and what is about to
// fire or firing, stays. Errors: ErrShardUnknown, and ErrUnavailable, where some may have
// been removed.
func (s *Scheduler) DropReferences(ctx context.Context, shard string, keys []string) error {
	return s.copies.DropReferences(ctx, shard, keys)
}

// Resync tells of the timers of which a shard is to have a copy, page by page. A
// timer that exists throughout is in some page once at least, whatever is done
// meanwhile, for a reader who goes on behind each page's Next.
// Errors: ErrShardUnknown; a *ViewError; ErrShardsAway and other ErrUnavailable.
func (s *Scheduler) Resync(ctx context.Context, q resync.Query) (resync.Page, error) {
	return s.lists.Read(ctx, q)
}

// Statistics counts the tags of all live timers, each timer once whatever its copies.
// They are at most a second old. Its error wraps ErrUnavailable, if no shard could be
// asked.
func (s *Scheduler) Statistics(ctx context.Context) (statistics.Sums, error) {
	return s.tags.Read(ctx)
}
