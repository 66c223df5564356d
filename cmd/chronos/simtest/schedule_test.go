package simtest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/verify/history"
)

// setting is a whole run, drawn from its seed.
type setting struct {
	seed     uint64
	mode     history.Mode
	nodes    int
	shards   int // at the start of the nodes
	spares   int // shards that operators may add
	clients  int
	think    time.Duration // of a client between two operations, on average
	timing   timing
	load     time.Duration // how long clients ask
	apart    []time.Duration
	faults   []fault
	opened   int  // redisstore.Options.Opened
	logs     int  // redisstore.Options.Deliveries
	instants bool // timers may name the instant at which they are due
	losses   bool // shards lose data
}

// fault is one fault of a schedule. node and shard are indexes, -1 for none. A fault of a link has node and
// shard; a fault of the link to the receiver has only a node.
type fault struct {
	kind     kind
	at, last time.Duration // since the start; how long
	node     int
	shard    int
	by       time.Duration // a delay, a step of a clock, or the age of a snapshot
	pick     uint64        // further random bits: for a change of the topology, which change and through which nodes
}

func (f fault) String() string {
	return fmt.Sprintf("%8.3fs %-16s node %2d shard %2d for %v by %v", f.at.Seconds(), f.kind, f.node, f.shard, f.last, f.by)
}

// kind names a fault.
type kind string

// The kinds of faults.
const (
	nodeKill     kind = "node-kill"     // and start after the time
	nodeStop     kind = "node-stop"     // in order, and start after the time
	nodePause    kind = "node-pause"    // as by SIGSTOP
	nodeClock    kind = "node-clock"    // wall clock stepped
	linkCut      kind = "link-cut"      // of a node and a shard
	linkHole     kind = "link-hole"     // black hole
	linkSlow     kind = "link-slow"     //
	linkLose     kind = "link-lose"     // answers lost, connections break
	linkHang     kind = "link-hang"     // answers lost, and all bytes after them
	outCut       kind = "out-cut"       // as link-cut, but of a node and the receiver
	outHole      kind = "out-hole"      //
	outSlow      kind = "out-slow"      //
	outLose      kind = "out-lose"      //
	shardCut     kind = "shard-cut"     // from all nodes
	shardPause   kind = "shard-pause"   // as by SIGSTOP
	shardSlow    kind = "shard-slow"    //
	shardKill    kind = "shard-kill"    // started again with its data
	shardScripts kind = "shard-scripts" // the shard forgets its scripts
	shardReplica kind = "shard-replica" // READONLY
	shardLoading kind = "shard-loading" // LOADING
	shardFull    kind = "shard-full"    // OOM
	shardBusy    kind = "shard-busy"    // BUSY
	shardClock   kind = "shard-clock"   // stepped
	shardWipe    kind = "shard-wipe"    // all data lost, connections kept
	shardEmpty   kind = "shard-empty"   // killed, started again without data
	shardBack    kind = "shard-back"    // killed, started again without its last writes
	linkLate     kind = "link-late"     // in one direction, with jitter
	linkStall    kind = "link-stall"    // stands still for a moment again and again
	shardStall   kind = "shard-stall"   // a shard stands still likewise
	shardSlowly  kind = "shard-slowly"  // slow for long
	nodeBusy     kind = "node-busy"     // held up for a moment again and again
	allSlow      kind = "all-slow"      // all nodes' links to a shard are slow
	allHole      kind = "all-hole"      // all nodes' links to a shard are black holes
	allCross     kind = "all-cross"     // each node is cut off from another shard
	allPause     kind = "all-pause"     // all nodes are paused
	topoOne      kind = "topology"      // an operator changes the topology
	topoTwo      kind = "topology-two"  // two operators do so at once, through two nodes
	topoKill     kind = "topology-kill" // an operator does so, and the node is killed at one of the steps
	topoCut      kind = "topology-cut"  // an operator does so, and the node is cut off from some shards
)

// rule is how often a kind is drawn, and the target of the kind.
type rule struct {
	kind    kind
	weight  int
	node    bool
	shard   bool
	instant bool // the fault has no end
	long    bool // the fault lasts for 10 s and more
	loses   bool // data
}

func rules() []rule {
	return []rule{
		{kind: nodeKill, weight: 6, node: true},
		{kind: nodeStop, weight: 3, node: true},
		{kind: nodePause, weight: 5, node: true},
		{kind: nodeClock, weight: 2, node: true, instant: true},
		{kind: linkCut, weight: 4, node: true, shard: true},
		{kind: linkHole, weight: 4, node: true, shard: true},
		{kind: linkSlow, weight: 3, node: true, shard: true},
		{kind: linkLose, weight: 4, node: true, shard: true},
		{kind: linkHang, weight: 3, node: true, shard: true},
		{kind: outCut, weight: 1, node: true},
		{kind: outHole, weight: 1, node: true},
		{kind: outSlow, weight: 1, node: true},
		{kind: outLose, weight: 2, node: true},
		{kind: shardCut, weight: 2, shard: true},
		{kind: shardPause, weight: 5, shard: true},
		{kind: shardSlow, weight: 2, shard: true},
		{kind: shardKill, weight: 4, shard: true},
		{kind: shardScripts, weight: 2, shard: true, instant: true},
		{kind: shardReplica, weight: 2, shard: true},
		{kind: shardLoading, weight: 1, shard: true},
		{kind: shardFull, weight: 2, shard: true},
		{kind: shardBusy, weight: 1, shard: true},
		{kind: shardClock, weight: 2, shard: true, instant: true},
		{kind: linkLate, weight: 3, node: true, shard: true},
		{kind: linkStall, weight: 3, node: true, shard: true, long: true},
		{kind: shardStall, weight: 2, shard: true, long: true},
		{kind: shardSlowly, weight: 2, shard: true, long: true},
		{kind: nodeBusy, weight: 3, node: true, long: true},
		{kind: allSlow, weight: 2, shard: true},
		{kind: allHole, weight: 2, shard: true},
		{kind: allCross, weight: 4},
		{kind: allPause, weight: 3},
		{kind: shardWipe, weight: 2, shard: true, instant: true, loses: true},
		{kind: shardEmpty, weight: 2, shard: true, loses: true},
		{kind: shardBack, weight: 3, shard: true, instant: true, loses: true},
	}
}

// Lengths of the parts of a run.
const (
	healing  = 30 * time.Second        // without faults, the last part of a liveness run's minutes
	draining = 100 * time.Second       // after a liveness run's minutes, until every timer had its attempts
	longest  = 60 * time.Second        // from a timer's write to its last pop
	calm     = 2500 * time.Millisecond // before the first fault
)

// draw draws the run of a seed. A longer run of a seed begins like a shorter run.
func draw(seed uint64, length time.Duration, o options) setting {
	r := rand.New(rand.NewPCG(seed, 1))
	s := setting{
		seed: seed, nodes: 2 + r.IntN(2), shards: 1 + r.IntN(3), clients: 2 + r.IntN(3),
		think: time.Duration(1+r.IntN(3)) * time.Second, mode: history.Liveness, load: length,
	}
	drawKind(rand.New(rand.NewPCG(seed, 12)), &s, o)
	if o.shards > 0 {
		s.shards = o.shards
	}
	if r.IntN(3) == 0 {
		s.mode = history.Safety
	}
	if s.mode == history.Liveness {
		s.load = max(length-healing, length/2)
	}
	s.instants = r.IntN(2) == 0
	s.logs = int(s.seed%2) * 20
	changes := !o.still
	if changes {
		s.spares = 1 + r.IntN(2)
	}
	for range s.shards + s.spares {
		apart := time.Duration(r.Int64N(int64(20*time.Second))) - 10*time.Second
		if s.instants {
			apart = 0
		}
		s.apart = append(s.apart, apart)
	}
	if changes {
		s.faults = drawChanges(rand.New(rand.NewPCG(seed, 3)), &s, o)
	}
	if !o.quiet {
		s.faults = drawFaults(rand.New(rand.NewPCG(seed, 2)), &s, o)
	}
	return s
}

// quickPoll is production's interval between two polls. Most seeds poll less often, since a run with quickPoll takes
// several times as long.
const (
	quickPoll  = 100 * time.Millisecond
	somePoll   = 300 * time.Millisecond
	seldomPoll = time.Second
)

// drawKind draws whether shards lose data, and how often nodes poll.
func drawKind(r *rand.Rand, s *setting, o options) {
	s.losses = r.IntN(4) == 0
	if o.losses != bySeed {
		s.losses = o.losses == allSeeds
	}
	poll := seldomPoll
	switch r.IntN(10) {
	case 0:
		poll = quickPoll
	case 1, 2, 3:
		poll = somePoll
	}
	s.timing = pollingEvery(cmp.Or(o.poll, poll))
}

// pollingEvery is a timing that allows the interval between two polls: a lease lasts for five polls, and
// no poll claims a backup before a better copy is due.
func pollingEvery(poll time.Duration) timing {
	t := timing{poll: poll, grace: max(time.Second, 5*poll), skew: store.DefaultSkew()}
	t.skew.Min = max(t.skew.Min, poll*3/2)
	t.skew.Max = max(t.skew.Max, t.skew.Min)
	return t
}

// slack is how much later than promised a callback may come, because nodes poll less often than in
// production.
func (t timing) slack() time.Duration {
	if t.poll <= quickPoll {
		return 0
	}
	return t.poll * 5 / 4
}

// drawFaults draws faults until the load ends, beside the changes of the topology. The average time between
// two faults is o.every. Faults of the same node, shard or link don't overlap. At any time one node is free
// of faults, except for faults of whole clusters.
func drawFaults(r *rand.Rand, s *setting, o options) []fault {
	all := slices.Grow(slices.Clone(s.faults), int(s.load/o.every))
	for at := calm; ; {
		at += time.Duration(r.ExpFloat64() * float64(o.every))
		if at >= s.load || len(o.wanted(rules())) == 0 {
			slices.SortStableFunc(all, func(a, b fault) int { return cmp.Compare(a.at, b.at) })
			return all
		}
		f := drawFault(r, s, at, o)
		if last := s.load - f.at; f.last > last {
			f.last = last
		}
		if fits(all, f, s.nodes) {
			all = append(all, f)
		}
	}
}

func drawFault(r *rand.Rand, s *setting, at time.Duration, o options) fault {
	chosen := drawRule(r, slices.DeleteFunc(o.wanted(rules()), func(k rule) bool {
		return k.loses && !s.losses || k.kind == shardClock && s.instants
	}))
	f := fault{kind: chosen.kind, at: at.Truncate(time.Millisecond), node: -1, shard: -1}
	node, shard := r.IntN(s.nodes), r.IntN(s.shards+s.spares)
	if chosen.node {
		f.node = node
	}
	if chosen.shard {
		f.shard = shard
	}
	// Mostly short: around the hold time, and now and then much longer.
	last := 200*time.Millisecond + time.Duration(r.ExpFloat64()*float64(4*time.Second))
	if !chosen.instant {
		f.last = min(last, 25*time.Second).Truncate(time.Millisecond)
	}
	if chosen.long {
		f.last = (10*time.Second + 4*last).Truncate(time.Millisecond)
		f.last = min(f.last, time.Minute)
	}
	f.by, f.pick = drawBy(r, f.kind), r.Uint64()
	return f
}

// wanted returns the rules whose kinds the options name, or all rules if the options name no kind.
func (o options) wanted(all []rule) []rule {
	return slices.DeleteFunc(all, func(k rule) bool {
		return len(o.kinds) > 0 && !slices.Contains(o.kinds, string(k.kind))
	})
}

func drawRule(r *rand.Rand, all []rule) (chosen rule) {
	total := 0
	for _, k := range all {
		total += k.weight
	}
	pick := r.IntN(total)
	for _, chosen = range all {
		if pick -= chosen.weight; pick < 0 {
			break
		}
	}
	return chosen
}

func drawBy(r *rand.Rand, k kind) time.Duration {
	amount := r.Float64()
	sign := float64(1 - 2*r.IntN(2))
	switch k {
	case linkSlow, outSlow, shardSlow, allSlow:
		return time.Duration(20+amount*330) * time.Millisecond
	case shardSlowly:
		return time.Duration(150+amount*200) * time.Millisecond
	case linkLate:
		return time.Duration(20+amount*980) * time.Millisecond
	case nodeClock:
		return time.Duration(sign*amount*amount*120_000) * time.Millisecond
	case shardClock:
		return time.Duration(sign*(1+amount*amount*5_000)) * time.Millisecond
	case shardBack:
		return time.Duration(10+amount*2_500) * time.Millisecond
	default:
		return 0
	}
}

// fits reports whether no other fault then hurts the node, shard or link of f. At least one node must stay
// unhurt, unless f is to hurt all nodes.
func fits(all []fault, f fault, nodes int) bool {
	const margin = time.Second
	hurt := map[int]bool{f.node: f.node >= 0}
	for _, other := range slices.Backward(all) {
		if other.at+other.last+margin < f.at || f.at+f.last+margin < other.at {
			continue
		}
		if other.node == f.node && f.node >= 0 || other.shard == f.shard && f.shard >= 0 && (other.node < 0 || f.node < 0) {
			return false
		}
		if f.isWhole() && (other.node >= 0 || other.isWhole()) || other.isWhole() && f.node >= 0 {
			return false
		}
		if other.node >= 0 {
			hurt[other.node] = true
		}
	}
	count := 0
	for _, is := range hurt {
		if is {
			count++
		}
	}
	return count < nodes
}

// step is the begin or the end of a fault.
type step struct {
	at    time.Duration
	fault int // index
	ends  bool
}

// steps returns all begins and ends in order.
func steps(faults []fault) []step {
	var all []step
	for i, f := range faults {
		begin := f.at
		if f.kind == shardBack {
			begin -= min(f.by, f.at)
		}
		all = append(all, step{begin, i, false}, step{f.at + f.last, i, true})
	}
	slices.SortStableFunc(all, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	return all
}
