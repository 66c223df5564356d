package topology

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

// Key is where a shard holds the topology, in the field TopologyField.
const (
	Key   = "chronos:topology"
	Field = "current"
)

// maxHops is how far a survey follows topologies that name shards of which it had not
// heard: a node that is started with shards that are gone may be many changes behind.
const maxHops = 8

// stand is what one shard holds.
type stand struct {
	shard    Shard
	topology *Topology // nil if it holds none
	err      error     // it could not be asked, or can't be read
	asked    time.Time // when that began; zero for what was just written there
}

// pollTopology asks the shards at once for what they hold.
func pollTopology(ctx context.Context, shards []Shard) []stand {
	ctx, cancel := context.WithTimeout(ctx, timing.TopologyPatience)
	defer cancel()
	all, began := make([]stand, len(shards)), time.Now()
	var wg sync.WaitGroup
	for i, sh := range shards {
		wg.Go(func() {
			l, err := HeldBy(ctx, sh)
			all[i] = stand{shard: sh, topology: l, err: err, asked: began}
		})
	}
	wg.Wait()
	return all
}

// survey asks the shards of the node's topology, and those that a later one names, as far
// as that leads: an earlier one, too, where the node isn't sure which counts.
func (c *Cluster) survey(ctx context.Context) ([]stand, error) {
	all := pollTopology(ctx, c.Connected())
	for range maxHops {
		l := latest(all)
		if l == nil || l.Epoch <= c.Topology().Epoch && c.sure.Load() {
			break
		}
		shards, err := c.shardsOf(l)
		if err != nil {
			return nil, fmt.Errorf("epoch %d: %w", l.Epoch, err)
		}
		unasked := slices.DeleteFunc(slices.Clone(shards), func(sh Shard) bool {
			return slices.ContainsFunc(all, func(at stand) bool { return at.shard == sh })
		})
		if len(unasked) == 0 {
			break
		}
		all = append(all, pollTopology(ctx, unasked)...)
	}
	return all, nil
}

// HeldBy is the topology that a shard holds, nil if the shard holds none.
func HeldBy(ctx context.Context, sh Shard) (*Topology, error) {
	text, err := sh.Holds(ctx)
	if err != nil || text == "" {
		return nil, err
	}
	l, err := decodeTopology(text)
	if err != nil {
		return nil, fmt.Errorf("%w: shard %s: %w", timer.ErrRefused, sh.Name(), err)
	}
	return l, nil
}

// agreed is the latest topology that a majority of its own shards hold, or that they
// have gone on from, those that have no voice left out; nil if there is none.
func agreed(all []stand, voiceless ...string) (best *Topology) {
	for _, at := range all {
		l := at.topology
		if l == nil || best != nil && l.Epoch <= best.Epoch {
			continue
		}
		if majority(l.voters(l.names(), voiceless...), func(name string) bool { return holds(all, name, l) }) {
			best = l
		}
	}
	return best
}

// mayCount reports whether a topology may be agreed on, as far as those know that
// could be asked, those that have no voice left out.
func mayCount(all []stand, l *Topology, voiceless ...string) bool {
	return majority(l.voters(l.names(), voiceless...), func(name string) bool {
		return holds(all, name, l) || !slices.ContainsFunc(all, func(at stand) bool { return at.shard.Name() == name && at.err == nil })
	})
}

// stands reports whether no later topology can be agreed on, as far as a node knows that
// has just started: half of the shards have none, so there is no majority of the others.
// Of a topology that nobody has stored yet half of its shards have to say so.
func stands(all []stand, l *Topology) bool {
	voters := l.voters(l.names())
	n := 0
	for _, name := range voters {
		if slices.ContainsFunc(all, func(at stand) bool {
			return at.shard.Name() == name && at.err == nil && (l.Epoch == 0 || holds(all, name, l))
		}) {
			n++
		}
	}
	return 2*n >= len(voters)
}

// latest is the topology of the highest epoch that anyone holds.
func latest(all []stand) (best *Topology) {
	for _, at := range all {
		if l := at.topology; l != nil && (best == nil || l.Epoch > best.Epoch) {
			best = l
		}
	}
	return best
}

// holds reports whether the named shard has the topology, or one of a later epoch.
func holds(all []stand, name string, l *Topology) bool {
	for _, at := range all {
		if at.shard.Name() == name {
			return at.topology != nil && (at.topology.same(l) || at.topology.Epoch > l.Epoch)
		}
	}
	return false
}

func majority(names []string, has func(name string) bool) bool {
	n := 0
	for _, name := range names {
		if has(name) {
			n++
		}
	}
	return 2*n > len(names)
}

// proposal is one attempt at a change, under the lock of a majority of the shards:
// nobody else changes the topology meanwhile, and who has died within one is
// finished first (as in Paxos: what may have been agreed on is proposed again).
type proposal struct {
	c      *Cluster
	token  string
	locked map[string]bool // at first
	all    []stand
}

// propose locks what can be locked, and reads under that. Its error is a
// *RefusedError if that is not a majority of the shards, the voiceless left out.
func (c *Cluster) propose(ctx context.Context, voiceless ...string) (*proposal, error) {
	shards := c.Connected()
	p := &proposal{c: c, token: c.o.Node + ":" + uuid.NewString(), locked: make(map[string]bool, len(shards))}
	held := false
	var mu sync.Mutex
	var wg sync.WaitGroup
	bounded, cancel := context.WithTimeout(ctx, timing.TopologyPatience)
	defer cancel()
	for _, sh := range shards {
		wg.Go(func() {
			err := lock(bounded, sh, p.token)
			mu.Lock()
			defer mu.Unlock()
			p.locked[sh.Name()] = err == nil
			held = held || errors.Is(err, errHeld)
		})
	}
	wg.Wait()
	p.all = pollTopology(ctx, shards)
	current := c.Topology()
	voters := current.voters(current.names(), voiceless...)
	if majority(voters, func(name string) bool { return p.locked[name] }) {
		return p, nil
	}
	p.end()
	if held {
		return nil, &RefusedError{Reason: fmt.Sprintf("another change is under way; try again in %v", timing.LockLife), Topology: current, cause: errHeld}
	}
	away := slices.DeleteFunc(voters, func(name string) bool { return p.locked[name] })
	return nil, current.Refuse("%s", needed(away))
}

// needed says what to do about shards that are away.
func needed(away []string) string {
	return fmt.Sprintf("a change needs more than half of the shards, and %s can't be written to; try again when they can, or drain what is gone for good with force",
		strings.Join(away, ", "))
}

// away are those of a topology that could not be locked, where it can't be agreed on
// without them; otherwise none.
func (p *proposal) away(l *Topology, voiceless ...string) []string {
	voters := l.voters(l.names(), voiceless...)
	isAway := func(name string) bool {
		locked, asked := p.locked[name]
		return asked && !locked
	}
	if majority(voters, func(name string) bool { return !isAway(name) }) {
		return nil
	}
	return slices.DeleteFunc(voters, func(name string) bool { return !isAway(name) })
}

// lock has nobody else change the topology on a shard until the lock ends.
func lock(ctx context.Context, sh Shard, token string) error {
	return tell(ctx, sh, "locked", "lock", token, "", "", "")
}

// unlock ends a lock earlier than the lock ends by itself, if the shard can be reached.
func unlock(ctx context.Context, sh Shard, token string) {
	_ = tell(ctx, sh, "unlocked", "unlock", token, "", "", "")
}

// errHeld says that another node changes the topology.
var errHeld = fmt.Errorf("%w: the topology is locked by another node", timer.ErrRefused)

// tell runs the script, which must say what is wanted.
func tell(ctx context.Context, sh Shard, want, what, token string, epoch, change, text any) error {
	said, err := sh.Run(ctx, what, token, timing.LockLife.Milliseconds(), epoch, change, text)
	switch {
	case err != nil:
		return err
	case said == "held":
		return fmt.Errorf("%w: shard %s: %s", errHeld, sh.Name(), what)
	case said != want && (want != "stored" || said != "same"):
		return fmt.Errorf("%w: shard %s: %s %s", timer.ErrRefused, sh.Name(), what, said)
	}
	return nil
}

// end gives the locks back.
func (p *proposal) end() {
	ctx, cancel := context.WithTimeout(context.Background(), timing.TopologyPatience)
	defer cancel()
	var wg sync.WaitGroup
	for _, sh := range p.c.Connected() {
		wg.Go(func() { unlock(ctx, sh, p.token) })
	}
	wg.Wait()
}

// write has the shards hold the topology, and reports what they hold then.
func (p *proposal) write(ctx context.Context, l *Topology) error {
	text, err := l.encode()
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, timing.TopologyPatience)
	defer cancel()
	shards, err := p.c.shardsOf(l)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, sh := range shards {
		wg.Go(func() {
			if p.store(bounded, sh, l, text) != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			p.note(sh, l)
		})
	}
	wg.Wait()
	return nil
}

// dismiss tells a shard that is removed so before anybody else: a node that is started
// with it, and can't reach those that stay, would take it for one of them by what it
// held before.
func (p *proposal) dismiss(ctx context.Context, base, next *Topology, voiceless []string) error {
	text, err := next.encode()
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, timing.TopologyPatience)
	defer cancel()
	for _, at := range p.all {
		_, was := base.member(at.shard.Name())
		_, is := next.member(at.shard.Name())
		if !was || is {
			continue
		}
		if err := p.store(bounded, at.shard, next, text); err != nil && !slices.Contains(voiceless, at.shard.Name()) {
			return fmt.Errorf("%w: the topology of epoch %d, which has no shard %s, is not stored there (%w); try again, or remove it with force if it is gone for good",
				errUnfinished, next.Epoch, at.shard.Name(), err)
		}
	}
	return nil
}

func (p *proposal) note(sh Shard, l *Topology) {
	for i := range p.all {
		if p.all[i].shard.Name() == sh.Name() {
			p.all[i] = stand{shard: sh, topology: l}
			return
		}
	}
	p.all = append(p.all, stand{shard: sh, topology: l})
}

// store has one shard hold the topology. One that is new has not been locked yet; a lock
// that ran out is not taken again: somebody else may have had it since.
func (p *proposal) store(ctx context.Context, sh Shard, t *Topology, text string) error {
	if !p.locked[sh.Name()] {
		if err := lock(ctx, sh, p.token); err != nil {
			return err
		}
	}
	return tell(ctx, sh, "stored", "store", p.token, t.Epoch, t.Change, text)
}
