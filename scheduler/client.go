package scheduler

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"

	"chronos/scheduler/forecast"
	"chronos/scheduler/replica"
	"chronos/scheduler/resync"
	"chronos/scheduler/site"
	"chronos/scheduler/statistics"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// Create stores a new timer under a key that chronos chooses. Errors: *InvalidError,
// ErrUnavailable, with which the timer may exist, ErrOverloaded.
func (s *Scheduler) Create(ctx context.Context, t timer.Timer) (timer.Receipt, error) {
	key, err := s.copies.NewKey("", &t)
	if err != nil {
		return timer.Receipt{}, err
	}
	return s.create(ctx, key, "", &t)
}

// CreateOnce is Create for a request that may come again, with the same idempotency key and body. A
// repeated request gets the receipt of the first request's timer, until CHRONOS_IDEMPOTENCY_LIFE
// after the timer was over. ErrKeyReused says that the body differs; all further errors are as for
// Create.
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
	return s.write(ctx, w)
}

// write carries out a wish that no condition holds back, at all sites. A create that happens once is decided about at
// one site.
func (s *Scheduler) write(ctx context.Context, w replica.Wish) (timer.Receipt, error) {
	if w.BodyHash == "" {
		return s.sites.Write(ctx, w)
	}
	return s.sites.WriteAt(ctx, s.sites.First(w.ID.Key), w)
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

// CreateAll is Create, or CreateOnce, of many timers at once. The timers go to their shards
// together, and every timer gets an answer.
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
	for i, answer := range s.writeEach(ctx, wishes) {
		of[i].Receipt, of[i].Err = answer.Receipt, answer.Err
	}
}

// writeEach is write of many wishes together.
func (s *Scheduler) writeEach(ctx context.Context, wishes []replica.Wish) []replica.Answer {
	isOnce := func(w replica.Wish) bool { return w.BodyHash != "" }
	if s.sites.None() || !slices.ContainsFunc(wishes, isOnce) {
		return s.sites.WriteEach(ctx, wishes)
	}
	answers := make([]replica.Answer, len(wishes))
	var plain []replica.Wish
	var of []int
	var once sync.WaitGroup
	for i, w := range wishes {
		if !isOnce(w) {
			plain, of = append(plain, w), append(of, i)
			continue
		}
		once.Go(func() { answers[i].Receipt, answers[i].Err = s.write(ctx, w) })
	}
	for n, answer := range s.sites.WriteEach(ctx, plain) {
		answers[of[n]] = answer
	}
	once.Wait()
	return answers
}

func (s *Scheduler) newOf(n *timer.Creation) (replica.Wish, error) {
	if n.IdempotencyKey != "" {
		return s.newCreate(n.Prefix+timer.OnceKey(n.IdempotencyKey), hashOf(n.Body), &n.Timer)
	}
	key, err := s.copies.NewKey(n.Prefix, &n.Timer)
	if err != nil {
		return replica.Wish{}, err
	}
	return s.newCreate(key, "", &n.Timer)
}

// Replace makes t the timer of this id, or creates the timer: a new start, with sequence numbers
// from 1. A replication factor of 0 stands for the timer's own factor; a different factor is
// refused. After the answer no callback of the earlier timer starts; if the answer says in flight,
// no callback starts later than 2 s after the answer. Errors as Create, and ErrOvertaken.
func (s *Scheduler) Replace(ctx context.Context, id timer.ID, t timer.Timer) (timer.Receipt, error) {
	return s.ReplaceIf(ctx, id, t, timer.Condition{})
}

// ReplaceIf is Replace on a condition. Additional errors: *ConditionError and ErrUndecided, with
// which nothing was done.
func (s *Scheduler) ReplaceIf(ctx context.Context, id timer.ID, t timer.Timer, cond timer.Condition) (timer.Receipt, error) {
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
	at, err := s.decider(ctx, id, cond)
	if err != nil {
		return timer.Receipt{}, err
	}
	found, silent, err := present(ctx, at, id, cond)
	switch {
	case err != nil:
		return timer.Receipt{}, err
	case found.RF != 0 && asked != 0 && asked != found.RF:
		return timer.Receipt{}, replica.FactorChanged(found.RF)
	case found.RF != 0:
		t.ReplicationFactor = found.RF
	}
	w := s.copies.NewWish(timer.ID{Key: id.Key, RF: t.ReplicationFactor, Hint: id.Hint}, &t)
	w.Begun, w.Silent = begun, silent
	if cond.IsZero() {
		return s.write(ctx, w)
	}
	return s.sites.WriteAt(ctx, at.Site, at.Copies.If(w, found))
}

// decider is the site that judges a condition: the own site if there is no condition.
func (s *Scheduler) decider(ctx context.Context, id timer.ID, cond timer.Condition) (*site.Decision, error) {
	if cond.IsZero() {
		return &site.Decision{Site: s.sites.Own()}, nil
	}
	return s.sites.Decide(ctx, id)
}

// present is what a write has to know of the timer that the write replaces: with a condition all, and
// otherwise the replication factor, unless the id has the factor.
func present(ctx context.Context, at *site.Decision, id timer.ID, cond timer.Condition) (found replica.Present, silent replica.Silent, err error) {
	switch {
	case !cond.IsZero():
		found, err = at.Copies.Judge(ctx, id, cond)
		err = at.Trust(ctx, found.Written(), err)
	case id.RF == 0:
		found.RF, silent, err = at.Copies.OwnFactor(ctx, id)
	}
	return found, silent, err
}

// maxPatchTries is how often a PATCH is tried that other writes forestall.
const maxPatchTries = 5

// Patch changes the stored timer on a condition. The function change gets the timer, and reports whether
// the timing is new: then the timer begins anew, as by Replace. Otherwise the timer stays the timer that
// it is, with its sequence numbers and its due times, and a callback under way counts. change is called
// again if another write has changed the timer meanwhile; its error is returned. After the answer no
// callback starts by the timer of before; if the answer says in flight, no such callback starts later than
// 2 s after the answer. Errors as for ReplaceIf, and ErrNotFound.
func (s *Scheduler) Patch(ctx context.Context, id timer.ID, cond timer.Condition, change func(t *timer.Timer) (begins bool, err error)) (receipt timer.Receipt, err error) {
	defer s.copies.Queue(ctx, id.Key)()
	for range maxPatchTries {
		var forestalled bool
		if receipt, forestalled, err = s.patchOnce(ctx, id, cond, change); !forestalled {
			return receipt, err
		}
	}
	return timer.Receipt{}, fmt.Errorf("%w: other writes to this timer kept coming first", timer.ErrUndecided)
}

// patchOnce reports whether another write has forestalled the PATCH, which has then done nothing.
func (s *Scheduler) patchOnce(ctx context.Context, id timer.ID, cond timer.Condition, change func(t *timer.Timer) (begins bool, err error)) (receipt timer.Receipt, forestalled bool, err error) {
	at, err := s.sites.Decide(ctx, id)
	if err != nil {
		return timer.Receipt{}, false, err
	}
	read, err := at.Copies.ReadAll(ctx, id, cond)
	if err := at.Trust(ctx, read.Written(), err); err != nil {
		return timer.Receipt{}, false, err
	}
	t := read.Timer()
	begins, err := change(&t)
	if err != nil {
		return timer.Receipt{}, false, err
	}
	own := read.Present().RF
	if t.ReplicationFactor = cmp.Or(t.ReplicationFactor, own); t.ReplicationFactor != own {
		return timer.Receipt{}, false, replica.FactorChanged(own)
	}
	if err := s.validate(&t); err != nil {
		return timer.Receipt{}, false, err
	}
	w := at.Copies.Revise(read, &t)
	if begins {
		w = at.Copies.If(at.Copies.NewWish(timer.ID{Key: id.Key, RF: own, Hint: id.Hint}, &t), read.Present())
	}
	receipt, err = s.sites.WriteAt(ctx, at.Site, w)
	_, forestalled = errors.AsType[*timer.ConditionError](err)
	return receipt, forestalled, err
}

// Delete ends the timer of this id, known or not, once or again. After the answer no callback of
// the timer starts; if the answer says in flight, no callback starts later than 2 s after the
// answer. Errors: ErrUnavailable, ErrOverloaded, ErrOvertaken.
func (s *Scheduler) Delete(ctx context.Context, id timer.ID) (timer.Receipt, error) {
	return s.DeleteIf(ctx, id, timer.Condition{})
}

// DeleteIf is Delete on a condition. Additional errors: *ConditionError and ErrUndecided, with which
// nothing was done.
func (s *Scheduler) DeleteIf(ctx context.Context, id timer.ID, cond timer.Condition) (timer.Receipt, error) {
	defer s.copies.Queue(ctx, id.Key)()
	if cond.IsZero() {
		return s.write(ctx, s.copies.NewWish(id, nil))
	}
	at, err := s.sites.Decide(ctx, id)
	if err != nil {
		return timer.Receipt{}, err
	}
	found, err := at.Copies.Judge(ctx, id, cond)
	if err := at.Trust(ctx, found.Written(), err); err != nil {
		return timer.Receipt{}, err
	}
	id.RF = cmp.Or(found.RF, id.RF)
	return s.sites.WriteAt(ctx, at.Site, at.Copies.If(at.Copies.NewWish(id, nil), found))
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

// Lookup reads the newest copy of a timer. Errors: ErrNotFound, if no shard has a live copy;
// ErrUnavailable, if no copy was found and some shard did not answer, or this node doesn't know
// where timers belong.
func (s *Scheduler) Lookup(ctx context.Context, id timer.ID) (store.ReadResult, error) {
	return s.sites.Lookup(ctx, id)
}

// DropReferences removes the timers' copies on a shard from which the timers have moved, once all
// owners are up to date. The only copy of a timer stays, and so does a copy that is about to fire
// or firing. Errors: ErrShardUnknown, and ErrUnavailable, with which some copies may have been
// removed.
func (s *Scheduler) DropReferences(ctx context.Context, shard string, keys []string) error {
	return s.copies.DropReferences(ctx, shard, keys)
}

// Resync lists the timers that should have a copy on a shard, page by page. A reader who goes on
// behind every page's Next finds a timer that exists throughout at least once, whatever happens
// meanwhile. Errors: ErrShardUnknown; a *ViewError; ErrShardsAway and further ErrUnavailable.
func (s *Scheduler) Resync(ctx context.Context, q resync.Query) (resync.Page, error) {
	return s.lists.Read(ctx, q)
}

// Statistics counts the tags of all live timers; a timer counts once, however many copies the timer
// has. The counts are at most a second old. The error wraps ErrUnavailable, if no shard could be
// asked.
func (s *Scheduler) Statistics(ctx context.Context) (statistics.Sums, error) {
	return s.tags.Read(ctx)
}

// Load counts how much comes due when; the query must be valid. Errors: ErrUnavailable.
func (s *Scheduler) Load(ctx context.Context, q forecast.Query) (forecast.Load, error) {
	return s.load.Read(ctx, q)
}

// Sites are the sites of the cluster, as this node knows the sites.
func (s *Scheduler) Sites() *site.Sites { return s.sites }
