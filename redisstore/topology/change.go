package topology

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"chronos/scheduler/awake"
)

const (
	// lockTries is how often a change asks for the lock, lockPause about how long a change waits after a refusal.
	lockTries = 6
	lockPause = 300 * time.Millisecond
)

// change makes a later topology from the agreed topology, and has the later topology agreed on. An unfinished change
// of another node is finished first. A *RefusedError means that nothing was changed. change does without the
// voiceless shards. An operator who names voiceless shards takes the risk that these shards have gone on to another
// topology.
func (c *Cluster) change(ctx context.Context, edit func(l *Topology) (Topology, error), voiceless ...string) (Topology, error) {
	return c.changeBy(ctx, false, edit, voiceless...)
}

// changeBy is change; force is AddShard's.
func (c *Cluster) changeBy(ctx context.Context, force bool, edit func(l *Topology) (Topology, error), voiceless ...string) (Topology, error) {
	if !c.sure.Load() && len(voiceless) == 0 {
		l := c.Topology()
		return l, l.Refuse("this node has just started, and fewer than half of the shards hold the topology of epoch %d that it found; try again in some seconds, or through another node; if the others are gone or lost all that they held, drain one of them with force", l.Epoch)
	}
	p, err := c.propose(ctx, voiceless...)
	for try := 1; err != nil && try < lockTries && awake.Sleep(ctx, lockPause/2+rand.N(lockPause)); try++ {
		p, err = c.propose(ctx, voiceless...) // a node that takes a step of its own has the lock for some milliseconds
	}
	if err != nil {
		return c.Topology(), err
	}
	defer p.end()
	base, err := p.base(ctx, voiceless...)
	if err != nil {
		return c.Topology(), err
	}
	if base == nil {
		l := c.Topology()
		return l, l.Refuse("the shards have no topology yet; try again in some seconds")
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
		return *base, base.Refuse("%s", needed(away))
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
	c.weigh(p.all)
	return next, nil
}

// base is the topology that a change begins from; nil for no topology. A change that another node began and left is
// agreed on first, since the change may count already.
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

// settleRivals is the change that was begun at the latest epoch. Two nodes that do not see one another may begin
// changes of the same epoch. Then some shards hold the first change and some the second, and neither change can be
// finished. One change goes on under the next epoch and replaces the two rivals: the change that may have been agreed
// on. If either rival may have been agreed on, the unreachable shards have to be waited for.
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

// agree stores a topology on a majority of the topology's own shards, of the shards that take, will take or took
// timers, and on all new shards. If too few shards can be reached, agree stores nothing: a topology that only a few
// shards hold would keep all nodes from writing.
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
		if l.StateOf(name) == Joining && !has(name) && !slices.Contains(voiceless, name) {
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
