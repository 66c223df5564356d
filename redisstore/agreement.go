package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"chronos/scheduler/timer"
)

// topologyKey is where a shard holds it.
const topologyKey = "chronos:topology"

const (
	// lockLife is how long whoever changes the topology may take.
	lockLife = 10 * time.Second
	// topologyPatience is how long one round of reading or writing it waits.
	topologyPatience = 500 * time.Millisecond
	// maxHops is how far a survey follows topologies that name shards of which it had not
	// heard: a node that is started with shards that are gone may be many changes behind.
	maxHops = 8
)

// stand is what one shard holds.
type stand struct {
	shard    *shard
	topology *Topology // nil if it holds none
	err      error     // it could not be asked, or can't be read
	asked    time.Time // when that began; zero for what was just written there
}

// pollTopology asks the shards at once for what they hold.
func pollTopology(ctx context.Context, shards []*shard) []stand {
	ctx, cancel := context.WithTimeout(ctx, topologyPatience)
	defer cancel()
	all, began := make([]stand, len(shards)), time.Now()
	var wg sync.WaitGroup
	for i, sh := range shards {
		wg.Go(func() {
			all[i] = sh.topology(ctx)
			all[i].asked = began
		})
	}
	wg.Wait()
	return all
}

// survey asks the shards of the node's topology, and those that a later one names, as far
// as that leads: an earlier one, too, where the node isn't sure which counts.
func (s *Store) survey(ctx context.Context) ([]stand, error) {
	all := pollTopology(ctx, s.everyShard())
	for range maxHops {
		l := latest(all)
		if l == nil || l.Epoch <= s.Topology().Epoch && s.sure.Load() {
			break
		}
		shards, err := s.shardsOf(l)
		if err != nil {
			return nil, fmt.Errorf("epoch %d: %w", l.Epoch, err)
		}
		unasked := slices.DeleteFunc(slices.Clone(shards), func(sh *shard) bool {
			return slices.ContainsFunc(all, func(at stand) bool { return at.shard == sh })
		})
		if len(unasked) == 0 {
			break
		}
		all = append(all, pollTopology(ctx, unasked)...)
	}
	return all, nil
}

func (s *shard) topology(ctx context.Context) stand {
	if err := s.ready(ctx); err != nil {
		return stand{shard: s, err: err}
	}
	text, err := s.poll.HGet(ctx, topologyKey, "current").Result()
	switch {
	case errors.Is(err, redis.Nil):
		return stand{shard: s}
	case err != nil:
		return stand{shard: s, err: s.unavailable(err)}
	}
	l, err := decodeTopology(text)
	if err != nil {
		return stand{shard: s, err: fmt.Errorf("%w: shard %s: %w", timer.ErrRefused, s.name, err)}
	}
	return stand{shard: s, topology: l}
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
		return holds(all, name, l) || !slices.ContainsFunc(all, func(at stand) bool { return at.shard.name == name && at.err == nil })
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
			return at.shard.name == name && at.err == nil && (l.Epoch == 0 || holds(all, name, l))
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
		if at.shard.name == name {
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
	s      *Store
	token  string
	locked map[string]bool // at first
	all    []stand
}

// propose locks what can be locked, and reads under that. Its error is a
// *RefusedError if that is not a majority of the shards, the voiceless left out.
func (s *Store) propose(ctx context.Context, voiceless ...string) (*proposal, error) {
	shards := s.everyShard()
	p := &proposal{s: s, token: s.node + ":" + uuid.NewString(), locked: make(map[string]bool, len(shards))}
	held := false
	var mu sync.Mutex
	var wg sync.WaitGroup
	bounded, cancel := context.WithTimeout(ctx, topologyPatience)
	defer cancel()
	for _, sh := range shards {
		wg.Go(func() {
			err := sh.lockTopology(bounded, p.token)
			mu.Lock()
			defer mu.Unlock()
			p.locked[sh.name] = err == nil
			held = held || errors.Is(err, errHeld)
		})
	}
	wg.Wait()
	p.all = pollTopology(ctx, shards)
	current := s.Topology()
	voters := current.voters(current.names(), voiceless...)
	if majority(voters, func(name string) bool { return p.locked[name] }) {
		return p, nil
	}
	p.end()
	if held {
		return nil, &RefusedError{Reason: fmt.Sprintf("another change is under way; try again in %v", lockLife), Topology: current, cause: errHeld}
	}
	away := slices.DeleteFunc(voters, func(name string) bool { return p.locked[name] })
	return nil, current.refuse("%s", needed(away))
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

func (s *shard) lockTopology(ctx context.Context, token string) error {
	return s.topologyCall(ctx, "locked", "lock", token, "", "", "")
}

// errHeld says that another node changes the topology.
var errHeld = fmt.Errorf("%w: the topology is locked by another node", timer.ErrRefused)

// topologyCall runs the script, which must say what is wanted.
func (s *shard) topologyCall(ctx context.Context, want, what, token string, epoch, change, text any) error {
	c := &call{script: "topology", keys: []string{topologyKey}, args: []any{what, token, lockLife.Milliseconds(), epoch, change, text}}
	s.eval(ctx, s.poll, []*call{c})
	if c.err != nil {
		return c.err
	}
	said, err := texts(c.reply, 0, 1)
	if err != nil {
		return s.unavailable(err)
	}
	if said[0] == "held" {
		return fmt.Errorf("%w: shard %s: %s", errHeld, s.name, what)
	}
	if said[0] != want && (want != "stored" || said[0] != "same") {
		return fmt.Errorf("%w: shard %s: %s %s", timer.ErrRefused, s.name, what, said[0])
	}
	return nil
}

// end gives the locks back.
func (p *proposal) end() {
	ctx, cancel := context.WithTimeout(context.Background(), topologyPatience)
	defer cancel()
	var wg sync.WaitGroup
	for _, sh := range p.s.everyShard() {
		wg.Go(func() {
			_ = sh.topologyCall(ctx, "unlocked", "unlock", p.token, "", "", "") // it ends by itself, too
		})
	}
	wg.Wait()
}

// write has the shards hold the topology, and reports what they hold then.
func (p *proposal) write(ctx context.Context, l *Topology) error {
	text, err := l.encode()
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, topologyPatience)
	defer cancel()
	shards, err := p.s.shardsOf(l)
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
	bounded, cancel := context.WithTimeout(ctx, topologyPatience)
	defer cancel()
	for _, at := range p.all {
		_, was := base.member(at.shard.name)
		_, is := next.member(at.shard.name)
		if !was || is {
			continue
		}
		if err := p.store(bounded, at.shard, next, text); err != nil && !slices.Contains(voiceless, at.shard.name) {
			return fmt.Errorf("%w: the topology of epoch %d, which has no shard %s, is not stored there (%w); try again, or remove it with force if it is gone for good",
				errUnfinished, next.Epoch, at.shard.name, err)
		}
	}
	return nil
}

func (p *proposal) note(sh *shard, l *Topology) {
	for i := range p.all {
		if p.all[i].shard.name == sh.name {
			p.all[i] = stand{shard: sh, topology: l}
			return
		}
	}
	p.all = append(p.all, stand{shard: sh, topology: l})
}

// store has one shard hold the topology. One that is new has not been locked yet; a lock
// that ran out is not taken again: somebody else may have had it since.
func (p *proposal) store(ctx context.Context, sh *shard, t *Topology, text string) error {
	if !p.locked[sh.name] {
		if err := sh.lockTopology(ctx, p.token); err != nil {
			return err
		}
	}
	return sh.storeTopology(ctx, p.token, t, text)
}

func (s *shard) storeTopology(ctx context.Context, token string, t *Topology, text string) error {
	return s.topologyCall(ctx, "stored", "store", token, t.Epoch, t.Change, text)
}
