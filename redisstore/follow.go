package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"chronos/scheduler/awake"
	"chronos/scheduler/timer"
)

const (
	// followInterval is how often a node looks for a later topology.
	followInterval = time.Second
	// announcedFor is how long a change is announced before it counts: every node has
	// followed by then, or refuses writes (blindFor).
	announcedFor = 7 * time.Second
	// lockTries is how often a change asks for the lock, lockPause about how long after
	// it was refused.
	lockTries = 6
	lockPause = 300 * time.Millisecond
	// unusedFor is how long connections to a shard that is gone are kept.
	unusedFor = 30 * time.Second
	// blindFor is how long a node goes on without having read the topology.
	blindFor = 5 * time.Second
	// leftAlone is after how many looks a change that was begun is finished by others.
	leftAlone = 3
)

// Follow has the node work by the latest topology that the shards agree on, and
// carries on changes that were announced, until ctx ends.
func (s *Store) Follow(ctx context.Context) {
	ticker := time.NewTicker(followInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if s.Topology().Epoch == 0 {
			_ = s.Join(ctx) // it has said why
			continue
		}
		s.look(ctx)
		switch {
		case !s.sure.Load():
			continue // others may have gone on from what it works by
		case s.begun.Load() >= leftAlone:
			s.finish(ctx)
		case s.behind.Load():
			s.restore(ctx)
		}
		if l := s.Topology(); l.Next != nil && s.since(&s.adopted) > s.announced {
			if _, err := s.change(ctx, func(l *Topology) (Topology, error) { return l.enactAnnounced() }); err != nil {
				s.log.Debug("the announced topology does not count yet", "err", err)
			}
		}
	}
}

// look reads the topology from all shards, and works by the one that they agree on.
func (s *Store) look(ctx context.Context) {
	all, err := s.survey(ctx)
	if err != nil {
		s.log.Error("a later topology can't be followed", "err", err)
		return
	}
	s.weigh(all)
	if err := s.retire(time.Now().Add(-unusedFor)); err != nil {
		s.log.Debug("connections to a shard that is gone could not be closed", "err", err)
	}
}

// retire ends the connections to shards of which nobody has made use since an
// instant: calls that began before that are over.
func (s *Store) retire(since time.Time) error {
	inUse := s.current.Load().shards
	var gone []*shard
	s.mu.Lock()
	s.opened = slices.DeleteFunc(s.opened, func(sh *shard) bool {
		switch {
		case slices.Contains(inUse, sh):
			sh.unusedSince = time.Time{}
		case sh.unusedSince.IsZero():
			sh.unusedSince = time.Now()
		case sh.unusedSince.Before(since):
			gone = append(gone, sh)
			return true
		}
		return false
	})
	s.mu.Unlock()
	var errs []error
	for _, sh := range gone {
		sh.merger.close()
		errs = append(errs, sh.close())
	}
	return errors.Join(errs...)
}

// weigh takes what the shards hold.
func (s *Store) weigh(all []stand) {
	mine := s.Topology()
	best, ofFew := agreed(all), false
	if best == nil && mine.Epoch == 0 {
		// Most shards are away; better the topology of a few than none.
		best, ofFew = latest(all), true
	}
	// What a few held is given up for what others agree on, be that the earlier one.
	instead := best != nil && !s.sure.Load() && !best.same(&mine) && slices.ContainsFunc(all, func(at stand) bool {
		_, member := best.member(at.shard.name)
		return member && at.topology != nil && at.topology.same(best)
	})
	if instead || best != nil && best.Epoch > mine.Epoch {
		if ofFew {
			s.sure.Store(false)
			s.read.Store(0)
		}
		if err := s.adopt(best); err != nil {
			s.log.Error("a later topology can't be followed", "epoch", best.Epoch, "err", err)
			return
		}
		mine = *best
	}
	s.behind.Store(slices.ContainsFunc(all, func(at stand) bool {
		_, member := mine.member(at.shard.name)
		return member && at.err == nil && (at.topology == nil || at.topology.Epoch < mine.Epoch)
	}))
	s.noteDrained(all)
	answered := slices.ContainsFunc(all, func(at stand) bool { return at.err == nil })
	l := latest(all)
	if l == nil || l.Epoch <= mine.Epoch {
		s.begun.Store(0)
	} else {
		s.begun.Add(1)
	}
	if stands(all, &mine) {
		s.sure.Store(true)
	}
	if answered && s.sure.Load() && !slices.ContainsFunc(all, func(at stand) bool {
		return at.topology != nil && at.topology.Epoch > mine.Epoch && mayCount(all, at.topology)
	}) {
		s.read.Store(max(int64(firstAsked(all).Sub(s.origin)), 1)) // in a test no time may have passed; 0 is never
	}
}

// firstAsked is the instant for which it is known what the shards hold.
func firstAsked(all []stand) time.Time {
	first := time.Now()
	for _, at := range all {
		if !at.asked.IsZero() && at.asked.Before(first) {
			first = at.asked
		}
	}
	return first
}

func (s *Store) noteDrained(all []stand) {
	s.mu.Lock()
	defer s.mu.Unlock()
	said := map[string]time.Time{}
	for _, at := range all {
		name := at.shard.name
		if at.topology != nil && at.topology.StateOf(name) == MemberDraining {
			said[name] = time.Now()
			if since, before := s.drained[name]; before {
				said[name] = since
			}
		}
	}
	s.drained = said
}

// finish has a change agreed on that somebody has begun and left.
func (s *Store) finish(ctx context.Context) {
	p, err := s.propose(ctx)
	if err != nil {
		return // somebody is at it, or the next look
	}
	defer p.end()
	if _, err := p.base(ctx); err != nil {
		s.log.Debug("the change that was begun is not finished", "err", err)
		return
	}
	s.weigh(p.all)
}

// restore gives the topology to shards that have lost it, or missed it.
func (s *Store) restore(ctx context.Context) {
	p, err := s.propose(ctx)
	if err != nil {
		return // somebody else does it, or the next look
	}
	defer p.end()
	best, mine := agreed(p.all), s.Topology()
	if best == nil || mine.Epoch > best.Epoch {
		best = &mine // of two shards one that has lost it is half of them
	}
	if l := latest(p.all); l != nil && l.Epoch > best.Epoch {
		return // it was begun, and is to be finished first
	}
	if err := p.write(ctx, best); err != nil {
		s.log.Error("the topology can't be restored", "err", err)
	}
}

// adopt has the node work by a topology, unless it works by a later one by now, and is
// sure of that.
func (s *Store) adopt(l *Topology) error {
	shards, err := s.shardsOf(l)
	if err != nil {
		return err
	}
	s.book.Publish(s.endpoints(l))
	s.adopting.Lock()
	defer s.adopting.Unlock()
	before := s.current.Load()
	if before.topology.same(l) || before.topology.Epoch >= l.Epoch && s.sure.Load() {
		return nil
	}
	s.current.Store(newPlacement(*l, shards))
	s.adopted.Store(int64(time.Since(s.origin)))
	close(before.changed)
	if before.topology.Epoch == 0 && !slices.Equal(before.topology.Active, l.Active) {
		s.warnOfOutdatedList(&before.topology, l)
		return nil
	}
	level := slog.LevelInfo
	if before.topology.Epoch == 0 {
		level = slog.LevelDebug // it is as this node was told
	}
	s.log.Log(context.Background(), level, "the topology has changed", "epoch", l.Epoch, "active", strings.Join(l.Active, ","), "next", strings.Join(l.Next, ","))
	return nil
}

// Writable is store.Store's: others may work by another topology than a node that
// has not been able to read it for long, or of one that has just started until half of
// the shards have told it the same. What is written to a shard that they have removed,
// nobody calls back.
func (s *Store) Writable() error {
	if s.read.Load() == 0 {
		return fmt.Errorf("%w: this node has just started, and fewer than half of the shards hold the topology of epoch %d that it found", timer.ErrUnavailable, s.Topology().Epoch)
	}
	if since := s.since(&s.read); s.Topology().Epoch > 0 && since > blindFor {
		return fmt.Errorf("%w: for %v it could not be known which topology counts: no shard can be read, or a change that was begun waits for one that can't be", timer.ErrUnavailable, since.Round(time.Second))
	}
	return nil
}

// since is how long ago an instant of the store was, whatever becomes of the wall
// clock.
func (s *Store) since(at *atomic.Int64) time.Duration {
	return time.Since(s.origin) - time.Duration(at.Load())
}

// change makes a later topology of the one that is agreed on, and has it agreed on.
// Somebody else's change that is unfinished is finished first. Its error is a
// *RefusedError where nothing was changed.
// It needs none of the voiceless: who names some takes it upon himself that no others
// have gone on from another topology.
func (s *Store) change(ctx context.Context, edit func(l *Topology) (Topology, error), voiceless ...string) (Topology, error) {
	return s.changeBy(ctx, false, edit, voiceless...)
}

// changeBy is change, by force of what AddShard allows then.
func (s *Store) changeBy(ctx context.Context, force bool, edit func(l *Topology) (Topology, error), voiceless ...string) (Topology, error) {
	if !s.sure.Load() && len(voiceless) == 0 {
		l := s.Topology()
		return l, l.refuse("this node has just started, and fewer than half of the shards hold the topology of epoch %d that it found; try again in some seconds, or through another node; if the others are gone or lost all that they held, drain one of them with force", l.Epoch)
	}
	p, err := s.propose(ctx, voiceless...)
	for try := 1; err != nil && try < lockTries && awake.Sleep(ctx, lockPause/2+rand.N(lockPause)); try++ {
		p, err = s.propose(ctx, voiceless...) // a node that takes a step of its own has the lock for some milliseconds
	}
	if err != nil {
		return s.Topology(), err
	}
	defer p.end()
	base, err := p.base(ctx, voiceless...)
	if err != nil {
		return s.Topology(), err
	}
	if base == nil {
		l := s.Topology()
		return l, l.refuse("the shards have no topology yet; try again in some seconds")
	}
	next, err := edit(base)
	if err != nil {
		return *base, err
	}
	next.Epoch = base.Epoch + 1
	if next.Change == base.Change {
		next.Change = uuid.NewString()
	}
	next.Cluster = cmp.Or(next.Cluster, next.Change)
	if away := p.away(&next); len(away) > 0 {
		return *base, base.refuse("%s", needed(away))
	}
	if err := p.vet(ctx, base, &next, force); err != nil {
		return *base, err
	}
	if err := p.dismiss(ctx, base, &next, voiceless); err != nil {
		return *base, err
	}
	if err := p.agree(ctx, &next); err != nil {
		return *base, err
	}
	s.weigh(p.all)
	return next, nil
}

// base is the topology that a change begins from, nil if there is none. What was begun
// and left is agreed on first: it may have been already.
func (p *proposal) base(ctx context.Context, voiceless ...string) (*Topology, error) {
	base := agreed(p.all, voiceless...)
	if begun := latest(p.all); begun != nil && (base == nil || begun.Epoch > base.Epoch) {
		begun, err := settleRivals(p.all, begun.Epoch, voiceless...)
		if err != nil {
			return base, err
		}
		return begun, p.agree(ctx, begun, voiceless...)
	}
	return base, nil
}

// settleRivals is the change that was begun at the latest epoch. Two that were begun
// apart from each other, each by who could not see the other, may hold some shards
// each, and then neither can be finished: one goes on as that of the next epoch, which
// replaces both. It is the one that may have been agreed on. If that may be either, as
// far as those know that could be asked, the others have to be waited for.
func settleRivals(all []stand, epoch int64, voiceless ...string) (*Topology, error) {
	var rivals, maybe []*Topology
	for _, at := range all {
		l := at.topology
		if l == nil || l.Epoch != epoch || slices.ContainsFunc(rivals, l.same) {
			continue
		}
		rivals = append(rivals, l)
		if mayCount(all, l, voiceless...) {
			maybe = append(maybe, l)
		}
	}
	switch {
	case len(rivals) == 1:
		return rivals[0], nil
	case len(maybe) > 1:
		return nil, fmt.Errorf("%w: two changes of epoch %d were begun, and which of them counts is known to shards that can't be reached; try again when they are back, or drain what is gone for good with force",
			errUnfinished, epoch)
	case len(maybe) == 0:
		maybe = rivals
	}
	next := *slices.MinFunc(maybe, func(a, b *Topology) int { return cmp.Compare(a.Change, b.Change) })
	next.Epoch++
	return &next, nil
}

// agree has a topology stored on a majority of its own shards, of those that took or
// take timers in it, and on those that are new. Where it can't be, none is given it: what
// a few hold, and others that are away may hold, keeps all nodes from writing.
func (p *proposal) agree(ctx context.Context, l *Topology, voiceless ...string) error {
	if away := p.away(l, voiceless...); len(away) > 0 {
		return fmt.Errorf("%w: the topology of epoch %d is begun; %s", errUnfinished, l.Epoch, needed(away))
	}
	if err := p.write(ctx, l); err != nil {
		return err
	}
	has := func(name string) bool { return holds(p.all, name, l) }
	var missing []string
	for _, name := range l.names() {
		if l.StateOf(name) == MemberJoining && !has(name) && !slices.Contains(voiceless, name) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 || slices.ContainsFunc(l.lists(voiceless...), func(names []string) bool { return !majority(names, has) }) {
		for _, name := range l.names() {
			if !has(name) && !slices.Contains(missing, name) {
				missing = append(missing, name)
			}
		}
		return fmt.Errorf("%w: the topology of epoch %d is begun, but %s did not take it; it is finished by the next change, or once they can be reached",
			errUnfinished, l.Epoch, strings.Join(missing, ", "))
	}
	return nil
}

var errUnfinished = errors.New("change unfinished")
