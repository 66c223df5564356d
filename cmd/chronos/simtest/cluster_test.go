package simtest

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"chronos/scheduler/timer"
	"chronos/scheduler/verify/history"
	"chronos/scheduler/webhook/webhooktest"
)

// cluster holds the nodes, the shards and the receiver of one bubble, and plays load and faults.
type cluster struct {
	t        *testing.T
	setting  setting
	options  options
	journal  *journal
	calls    *callLog
	shards   []*shard
	machines []*machine
	receiver *webhooktest.Receiver

	starts sync.WaitGroup // of processes, after a fault
	begun  []time.Duration
	undo   []func()
	kept   map[int]snapshot // by fault

	ledger    *ledger
	unknown   unknownShards // used by the overseer alone
	operators sync.WaitGroup
}

// newCluster makes a cluster and starts the nodes. The caller calls close.
func newCluster(t *testing.T, s setting, o options, log *slog.Logger) *cluster {
	t.Helper()
	c := &cluster{
		t: t, setting: s, options: o, begun: make([]time.Duration, len(s.faults)), undo: make([]func(), len(s.faults)),
		kept: map[int]snapshot{}, ledger: newLedger(),
	}
	var fast *fastClaim
	if !o.exact {
		fast = newFastClaim(t)
	}
	header := history.Header{
		Mode: s.mode, Seed: s.seed, Reproduce: o.repeat(s.seed), RF: timer.DefaultReplicationFactor,
		SkewMinMs: s.timing.skew.Min.Milliseconds(), SkewMaxMs: s.timing.skew.Max.Milliseconds(),
		HoldMs: 3500, LimitMs: 2000, PollMs: s.timing.poll.Milliseconds(), Attempts: 5, Exempt: exempt(),
	}
	if o.calls != "" {
		c.calls = openCallLog(t, o.calls, s.seed)
	}
	for i := range s.shards + s.spares {
		sh := newShard(t, string(rune('a'+i)), fast)
		sh.ahead, sh.tell, sh.log = s.apart[i], c.ledger.stored, c.calls
		c.shards = append(c.shards, sh)
		if i < s.shards {
			header.Shards = append(header.Shards, sh.name)
		}
	}
	c.journal = newJournal(header)
	listening := newListener()
	c.receiver = webhooktest.Serve(t, listening)
	c.receiver.Respond(func(call webhooktest.Call) webhooktest.Answer {
		answer := answerTo(s.seed, call)
		c.journal.call(call, answer)
		return answer
	})
	for i := range s.nodes {
		m := newMachine(string(rune('1'+i)), s.timing, log, c.shards, s.shards, listening.accept)
		m.opened, m.logs, m.listed = s.opened, s.logs, s.losses
		c.machines = append(c.machines, m)
		c.start(m)
	}
	c.starts.Wait()
	for _, m := range c.machines {
		for _, sh := range c.shards[:s.shards] {
			if m.links[sh.name].dialed() == 0 {
				c.close()
				t.Fatalf("node %s did not dial shard %s: the store makes no use of ShardConfig.Dial", m.name, sh.name)
			}
		}
	}
	return c
}

func (l *link) dialed() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dials
}

// start starts a node in the background.
func (c *cluster) start(m *machine) {
	c.starts.Go(func() {
		if err := m.start(c.t.Context()); err != nil && !errors.Is(err, errRuns) {
			c.t.Errorf("start node: %v", err)
		}
	})
}

// play runs the clients and the faults, and returns the recorded history.
func (c *cluster) play() *history.History {
	ctx, stop := context.WithTimeout(c.t.Context(), c.setting.load)
	defer stop()
	var clients sync.WaitGroup
	for i := range c.setting.clients {
		clients.Go(func() { newClient(c, i).run(ctx) })
	}
	over, stopOverseer := context.WithCancel(c.t.Context())
	defer stopOverseer()
	clients.Go(func() { c.oversee(over) })
	for _, s := range steps(c.setting.faults) {
		time.Sleep(s.at - c.journal.now())
		c.take(s)
	}
	time.Sleep(c.setting.load - c.journal.now())
	drained := c.setting.mode == history.Liveness
	if drained {
		c.lastChange()
		time.Sleep(c.setting.load + healing + draining - c.journal.now())
	}
	stopOverseer()
	c.operators.Wait()
	clients.Wait()
	if drained {
		c.dump()
	}
	c.tellRest()
	c.journal.left(c.receiver.Calls())
	h := c.journal.finish(drained)
	forgetUnheard(h)
	h.Homes = append(h.Homes, c.ledger.homes(h)...)
	return h
}

// attemptsTake is the sum of the waits between five attempts. An attempt that never left its node is in no
// history.
const attemptsTake = (1 + 2 + 4 + 8) * time.Second

// take begins or ends a fault. The end of a fault is recorded.
func (c *cluster) take(s step) {
	f := c.setting.faults[s.fault]
	if !s.ends {
		c.begun[s.fault] = c.journal.now()
		c.undo[s.fault] = c.begin(s.fault, f)
		return
	}
	c.undo[s.fault]()
	if f.tells() {
		return
	}
	if f.kind == shardBack {
		c.begun[s.fault] = c.journal.now() // so far the shard's data was only copied
	}
	begun, ended := c.begun[s.fault], c.journal.now()
	h := history.Fault{Kind: string(f.kind), Class: f.class(), StartNs: int64(begun), EndNs: int64(ended)}
	h.Restarted = f.kind == shardKill
	if f.node >= 0 {
		h.Node = c.machines[f.node].name
	}
	if f.shard >= 0 {
		h.Shard = c.shards[f.shard].name
	}
	switch classOf(f.kind) {
	case history.Slow:
		h.LateMs = 10 * f.by.Milliseconds()
		if f.kind == outSlow {
			h.CallMs = 3 * f.by.Milliseconds() // with a new connection
		}
	case history.ClockStep, history.NodeClock:
		h.StepMs = f.by.Milliseconds()
	case history.ShardLost:
		h.BackMs = f.by.Milliseconds() // 0 unless the shard returns to a snapshot
	default:
	}
	if f.kind == outCut || f.kind == outHole || f.kind == outLose {
		h.LateMs, h.Mute = attemptsTake.Milliseconds(), f.kind != outLose
	}
	if h.Shard != "" && !c.wasMember(h.Shard, begun) {
		h.Class = history.Harmless
	}
	c.journal.fault(h)
}

// A call to a shard without an open connection costs three round trips: the greeting, a look at the shard's
// configuration, and the call. The engine waits at most bound for calls to several shards, and then drops the
// connection.
const (
	roundTrips = 3
	bound      = 400 * time.Millisecond
)

// class says how the judge treats the fault. A fault between a node and the receiver acts like a freeze of
// the node: callbacks are late, and answers may be lost. A link or shard so slow that calls are given up
// counts as cut.
func (f fault) class() history.Class {
	switch f.kind {
	case linkSlow, allSlow:
		if roundTrips*2*f.by > bound {
			return history.LinkCut
		}
	case linkLate:
		if roundTrips*f.by > bound {
			return history.LinkCut
		}
	case shardSlow, shardSlowly:
		if roundTrips*f.by > bound {
			return history.ShardAway
		}
	default:
	}
	return classOf(f.kind)
}

func classOf(k kind) history.Class {
	switch k {
	case nodeKill:
		return history.NodeDeath
	case nodePause, allPause, outCut, outHole, outLose:
		return history.NodeFreeze
	case linkCut, linkHole, linkStall, allHole, allCross:
		return history.LinkCut
	case linkLose, linkHang:
		return history.AnswersLost
	case linkSlow, linkLate, allSlow, outSlow, shardSlow, shardSlowly, nodeBusy:
		return history.Slow
	case shardStall, shardCut, shardPause, shardKill, shardReplica, shardLoading, shardFull, shardBusy:
		return history.ShardAway
	case shardWipe, shardEmpty, shardBack:
		return history.ShardLost
	case shardClock:
		return history.ClockStep
	case nodeClock:
		return history.NodeClock
	case nodeStop:
		return history.NodeStop
	default:
		return history.Harmless
	}
}

// begin begins a fault; undo ends the fault.
func (c *cluster) begin(index int, f fault) (undo func()) {
	var m *machine
	if f.node >= 0 {
		m = c.machines[f.node]
	}
	switch {
	case f.isChange():
		return c.beginChange(f, m)
	case f.isWhole():
		return c.beginWhole(f)
	case f.kind == linkStall, f.kind == shardStall:
		return c.beginStalls(index, f, m)
	case f.kind == nodeBusy:
		return c.beginBusy(f, m)
	case f.node >= 0 && f.shard >= 0:
		return beginLink(m.links[c.shards[f.shard].name], f)
	case f.shard >= 0:
		return c.beginShard(index, c.shards[f.shard], f)
	}
	switch f.kind {
	case nodeKill:
		m.kill()
		return func() { c.start(m) }
	case nodeStop:
		ended := m.shutdown()
		return func() { c.starts.Go(func() { <-ended; c.start(m) }) }
	case nodePause:
		return m.pause()
	case nodeClock:
		m.wall.Add(int64(f.by))
		return func() {}
	default:
		return beginLink(m.receiver, f)
	}
}

func beginLink(l *link, f fault) (undo func()) {
	switch f.kind {
	case allCross:
		return l.impose([]Condition{Cut, BlackHole}[f.pick%2])
	case linkLate:
		early := time.Duration(f.pick >> 8 % uint64(f.by))
		return l.lagBehind(&lag{toNode: f.pick%2 == 0, base: early, jitter: f.by - early, r: rand.New(rand.NewPCG(f.pick, 5))})
	case linkHole, outHole, allHole:
		return l.impose(BlackHole)
	case linkLose, outLose:
		return l.impose(LoseAnswers)
	case linkHang:
		return l.impose(HangAnswers)
	case linkSlow, outSlow, allSlow:
		return l.slowDown(f.by)
	default:
		return l.impose(Cut)
	}
}

func (c *cluster) beginShard(index int, s *shard, f fault) (undo func()) {
	nothing := func() {}
	switch f.kind {
	case shardCut:
		var lifts []func()
		for _, l := range s.links {
			lifts = append(lifts, l.impose(Cut))
		}
		return func() {
			for _, lift := range slices.Backward(lifts) {
				lift()
			}
		}
	case shardPause:
		return s.pause()
	case shardSlow, shardSlowly:
		return s.slowDown(f.by)
	case shardKill:
		s.kill()
		return s.restart
	case shardEmpty:
		s.kill()
		s.wipe()
		c.ledger.forgot(s.name, "")
		return s.restart
	case shardScripts:
		s.forgetScripts()
	case shardClock:
		s.step(f.by)
	case shardWipe:
		s.wipe()
		c.ledger.forgot(s.name, "")
	case shardBack:
		c.keep(index, s)
		return func() { c.bringBack(index, s) }
	case shardReplica:
		return s.refuseAll(ReadOnly)
	case shardLoading:
		return s.refuseAll(Loading)
	case shardFull:
		return s.refuseAll(OutOfMemory)
	case shardBusy:
		return s.refuseAll(Busy)
	default:
		c.t.Errorf("fault %s is unknown", f.kind)
	}
	return nothing
}

func (c *cluster) keep(index int, s *shard) {
	taken, err := s.snapshot()
	if err != nil {
		c.t.Errorf("shard %s: %v", s.name, err)
	}
	c.kept[index] = taken
}

// bringBack kills the shard and starts the shard with the kept data. A Redis that has lost its last writes is
// always a new process.
func (c *cluster) bringBack(index int, s *shard) {
	s.kill()
	if err := s.restore(c.kept[index]); err != nil {
		c.t.Errorf("shard %s: %v", s.name, err)
	}
	c.ledger.forgot(s.name, c.kept[index].hashes[topologyKey]["current"])
	s.restart()
	delete(c.kept, index)
}

// close stops the whole cluster, in any state. No fault may be under way.
func (c *cluster) close() {
	c.starts.Wait()
	for _, m := range c.machines {
		m.shutdown()
	}
	for _, m := range c.machines {
		m.running.Wait()
	}
	time.Sleep(2 * time.Second) // go-redis looks each second whether a pool that couldn't connect was closed
	c.receiver.Close()
	for _, s := range c.shards {
		s.close()
	}
	c.calls.close(c.t)
}

// counts sums up the tallies of all shards.
func (c *cluster) counts() (all tally) {
	for _, s := range c.shards {
		one := s.counts()
		all.commands += one.commands
		all.scripts += one.scripts
		all.shortened += one.shortened
		all.refused += one.refused
	}
	return all
}
