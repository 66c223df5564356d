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

// Key is where a shard holds the topology, in the field Field.
const (
	Key   = "chronos:topology"
	Field = "current"
)

// maxHops is how far a survey follows topologies that name unknown shards. A node that starts with an outdated list
// may be many changes behind.
const maxHops = 8

// stand is what one shard holds.
type stand struct {
	shard    Shard
	topology *Topology // nil if the shard holds no topology
	err      error     // the shard could not be asked, or the topology can't be read
	asked    time.Time // when the question began; zero for a topology just written
}

// pollTopology asks the shards in parallel for the topologies that the shards hold.
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

// survey asks the shards of the node's topology, and the shards that a later topology names, and so on. A node that
// is not sure which topology counts follows an earlier topology, too.
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

// agreed is the latest topology that a majority of the topology's own shards hold, or have followed by a later
// topology; nil for no topology. Voiceless shards do not count.
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

// mayCount reports whether a topology may be agreed on: shards that could not be asked count as holding the topology.
// Voiceless shards do not count.
func mayCount(all []stand, l *Topology, voiceless ...string) bool {
	return majority(l.voters(l.names(), voiceless...), func(name string) bool {
		return holds(all, name, l) || !slices.ContainsFunc(all, func(at stand) bool { return at.shard.Name() == name && at.err == nil })
	})
}

// stands reports whether no later topology can be agreed on, as far as a node that has just started knows: half of
// the shards hold no later topology, so the rest is no majority. For a topology that nobody has stored yet, half of
// the shards have to answer.
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

// latest is the topology of the highest epoch that any shard holds.
func latest(all []stand) (best *Topology) {
	for _, at := range all {
		if l := at.topology; l != nil && (best == nil || l.Epoch > best.Epoch) {
			best = l
		}
	}
	return best
}

// holds reports whether the named shard has the topology, or a topology of a later epoch.
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

// proposal is one attempt at a change, under the lock of a majority of the shards. Meanwhile no other node changes
// the topology. A change whose node died is finished first, as in Paxos: a topology that may be agreed on is proposed
// again.
type proposal struct {
	c      *Cluster
	token  string
	locked map[string]bool // when the proposal began
	all    []stand
}

// propose locks all shards that can be locked, and then reads the topologies. propose fails with a *RefusedError if
// the locked shards are no majority. Voiceless shards do not count.
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

// needed says how to go on without the shards that can't be reached.
func needed(away []string) string {
	return fmt.Sprintf("a change needs more than half of the shards, and %s can't be written to; try again when they can, or drain what is gone for good with force",
		strings.Join(away, ", "))
}

// away are the shards of a topology that could not be locked, if the topology can't be agreed on without them;
// otherwise away is empty.
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

// lock keeps every other node from changing the topology on a shard until the lock ends.
func lock(ctx context.Context, sh Shard, token string) error {
	return tell(ctx, sh, "locked", "lock", token, "", "", "")
}

// unlock ends a lock early, if the shard can be reached.
func unlock(ctx context.Context, sh Shard, token string) {
	_ = tell(ctx, sh, "unlocked", "unlock", token, "", "", "")
}

// errHeld says that another node changes the topology.
var errHeld = fmt.Errorf("%w: the topology is locked by another node", timer.ErrRefused)

// tell runs the script, and fails unless the script answers with the wanted word.
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

// write stores the topology on the shards, and notes which shards have taken the topology.
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

// dismiss tells a removed shard of the removal before any other shard. Otherwise a node that starts with the removed
// shard, and can't reach the remaining shards, would follow the former topology.
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

// store has one shard hold the topology. A new shard has not been locked yet. A lock that ran out is not taken again:
// another node may have held the lock since.
func (p *proposal) store(ctx context.Context, sh Shard, t *Topology, text string) error {
	if !p.locked[sh.Name()] {
		if err := lock(ctx, sh, p.token); err != nil {
			return err
		}
	}
	return tell(ctx, sh, "stored", "store", p.token, t.Epoch, t.Change, text)
}
