package simtest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"chronos/scheduler"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/webhook/webhooktest"
)

// twoSites are the names of the sites.
var twoSites = []string{"london", "newyork"}

// siteSetting is a run of two sites, drawn from its seed.
type siteSetting struct {
	seed    uint64
	shards  int // of a site
	nodes   int // of a site
	far     time.Duration
	timing  timing
	load    time.Duration
	clients int
	faults  []siteFault
}

// siteFault is a fault of a run of two sites.
type siteFault struct {
	kind     siteKind
	at, last time.Duration
	site     int
	node     int // of the site
	shard    int // of the site
	by       time.Duration
}

func (f *siteFault) String() string {
	return fmt.Sprintf("%8.3fs %-12s %s node %d shard %d for %v by %v", f.at.Seconds(), f.kind, twoSites[f.site], f.node, f.shard, f.last, f.by)
}

// ends is when the fault is over.
func (f *siteFault) ends() time.Duration { return f.at + f.last }

type siteKind string

// The kinds of faults.
const (
	sitesCut   siteKind = "sites-cut"   // no byte goes between the sites, and connections break
	sitesHole  siteKind = "sites-hole"  // bytes between the sites vanish
	farCut     siteKind = "far-cut"     // one node is cut off from the other site
	farSlow    siteKind = "far-slow"    // all bytes between the sites are slow
	siteDead   siteKind = "site-dead"   // nodes and shards of a site are killed, and come back with the data
	siteWiped  siteKind = "site-wiped"  // the shards of a site come back empty, while the nodes live
	siteLost   siteKind = "site-lost"   // nodes and shards are killed, and come back empty
	oneWiped   siteKind = "one-wiped"   // a shard of a site comes back empty
	oneKilled  siteKind = "one-killed"  // a shard is killed, and comes back with its data
	onePaused  siteKind = "one-paused"  // a shard stands still
	nodeDies   siteKind = "node-dies"   // a node is killed, and started again
	nodesStand siteKind = "nodes-stand" // the nodes of a site stand still
	clockStep  siteKind = "clock-step"  // the wall clock of a node is stepped for good
)

// loses reports whether a fault of the kind loses data of a whole site.
func (k siteKind) loses() bool { return k == siteWiped || k == siteLost }

func drawSites(seed uint64, load time.Duration) siteSetting {
	r := rand.New(rand.NewPCG(seed, 77))
	s := siteSetting{
		seed: seed, shards: 1 + r.IntN(3), nodes: 1 + r.IntN(2), far: time.Duration(10+r.IntN(90)) * time.Millisecond,
		timing: timing{poll: 100 * time.Millisecond, grace: time.Second, skew: store.DefaultSkew()}, load: load, clients: 4,
	}
	if r.IntN(4) > 0 { // most of the work is that of polls
		s.timing = timing{poll: time.Second, grace: 5 * time.Second, skew: store.Skew{Min: 1500 * time.Millisecond, Max: 2 * time.Second}}
	}
	kinds := []siteKind{sitesCut, sitesCut, sitesHole, sitesHole, farCut, farSlow, siteDead, siteDead, siteWiped, siteLost, oneWiped, oneKilled, onePaused, nodeDies, nodeDies, nodesStand, clockStep}
	for at := 5 * time.Second; ; {
		f := siteFault{kind: kinds[r.IntN(len(kinds))], at: at, site: r.IntN(2), node: r.IntN(s.nodes), shard: r.IntN(s.shards)}
		f.last = between(r, time.Second, 20*time.Second)
		switch f.kind {
		case sitesCut, sitesHole:
			if r.IntN(4) == 0 {
				f.last = between(r, 30*time.Second, 3*time.Minute)
			}
		case onePaused:
			f.last = between(r, 200*time.Millisecond, 3*time.Second)
		case farSlow:
			f.by = between(r, 50*time.Millisecond, 400*time.Millisecond)
		case clockStep:
			f.last, f.by = 0, between(r, 0, 20*time.Second)-10*time.Second
		default:
		}
		if f.ends()+settling > load {
			return s
		}
		s.faults = append(s.faults, f)
		at = f.ends() + between(r, 2*time.Second, 40*time.Second)
	}
}

// siteCluster is a cluster of two sites in a bubble.
type siteCluster struct {
	t        *testing.T
	setting  siteSetting
	shards   [2][]*shard
	machines [2][]*machine
	receiver *webhooktest.Receiver
	start    time.Time
	calls    *callLog

	mu  sync.Mutex
	log siteLog
}

func newSiteCluster(t *testing.T, s siteSetting, o options, log *slog.Logger) *siteCluster {
	t.Helper()
	c := &siteCluster{t: t, setting: s, start: time.Now()}
	if o.calls != "" {
		c.calls = openCallLog(t, o.calls, s.seed)
	}
	var fast *fastClaim
	if !o.exact {
		fast = newFastClaim(t)
	}
	siteOf, all := map[string]string{}, []*shard(nil)
	r := rand.New(rand.NewPCG(s.seed, 78))
	for site := range twoSites {
		for i := range s.shards {
			sh := newShard(t, string(rune('a'+i+10*site)), fast)
			sh.ahead, sh.log = between(r, 0, 4*time.Second)-2*time.Second, c.calls
			c.shards[site], all, siteOf[sh.name] = append(c.shards[site], sh), append(all, sh), twoSites[site]
		}
	}
	listening := newListener()
	c.receiver = webhooktest.Serve(t, listening)
	c.receiver.Respond(func(call webhooktest.Call) webhooktest.Answer {
		answer := answerTo(s.seed, call)
		c.record(call, answer)
		return answer
	})
	var starts sync.WaitGroup
	for site, name := range twoSites {
		for i := range s.nodes {
			m := newMachine(fmt.Sprintf("%d", 1+i+5*site), s.timing, log, all, len(all), listening.accept)
			m.site, m.siteOf, m.opened = name, siteOf, -1
			for _, sh := range c.shards[1-site] {
				m.links[sh.name].slowDown(s.far)
			}
			c.machines[site] = append(c.machines[site], m)
			starts.Go(func() { c.begin(m) })
		}
	}
	starts.Wait()
	return c
}

func (c *siteCluster) begin(m *machine) {
	if err := m.start(c.t.Context()); err != nil && !errors.Is(err, errRuns) {
		c.t.Errorf("start node: %v", err)
	}
}

func (c *siteCluster) now() time.Duration { return time.Since(c.start) }

// far are the links of a site's nodes to the other site.
func (c *siteCluster) far(site int) (all []*link) {
	for _, m := range c.machines[site] {
		for _, sh := range c.shards[1-site] {
			all = append(all, m.links[sh.name])
		}
	}
	return all
}

// suffer plays a fault.
func (c *siteCluster) suffer(f *siteFault) {
	var undo []func()
	m, sh := c.machines[f.site][f.node], c.shards[f.site][f.shard]
	both := slices.Concat(c.far(0), c.far(1))
	switch f.kind {
	case sitesCut, sitesHole:
		condition := map[siteKind]Condition{sitesCut: Cut, sitesHole: BlackHole}[f.kind]
		for _, l := range both {
			undo = append(undo, l.impose(condition))
		}
	case farCut:
		for _, other := range c.shards[1-f.site] {
			undo = append(undo, m.links[other.name].impose(Cut))
		}
	case farSlow:
		for _, l := range both {
			undo = append(undo, l.slowDown(f.by))
		}
	case siteDead, siteLost, siteWiped:
		if f.kind != siteWiped {
			for _, m := range c.machines[f.site] {
				m.kill()
				undo = append(undo, func() { c.begin(m) })
			}
		}
		for _, sh := range c.shards[f.site] {
			sh.kill()
			undo = slices.Insert(undo, 0, func() { c.revive(sh, f.kind.loses()) })
		}
	case oneWiped, oneKilled:
		sh.kill()
		undo = append(undo, func() { c.revive(sh, f.kind == oneWiped) })
	case onePaused:
		undo = append(undo, sh.pause())
	case nodeDies:
		m.kill()
		undo = append(undo, func() { c.begin(m) })
	case nodesStand:
		for _, m := range c.machines[f.site] {
			undo = append(undo, m.pause())
		}
	case clockStep:
		m.wall.Add(int64(f.by))
	}
	time.Sleep(f.last)
	for _, end := range undo {
		end()
	}
}

func (c *siteCluster) revive(sh *shard, empty bool) {
	if empty {
		if err := sh.restore(snapshot{}); err != nil {
			c.t.Errorf("empty shard %s: %v", sh.name, err)
		}
	}
	sh.restart()
}

// play runs clients and faults, and waits until all timers must be over and both sites alike.
func (c *siteCluster) play() {
	time.Sleep(3 * time.Second) // the nodes find that the cluster is new
	ctx, stop := context.WithTimeout(c.t.Context(), c.setting.load)
	defer stop()
	var clients sync.WaitGroup
	for i := range c.setting.clients {
		clients.Go(func() { c.client(ctx, i) })
	}
	for i := range c.setting.faults {
		f := &c.setting.faults[i]
		f.at += 3 * time.Second
		time.Sleep(f.at - c.now())
		c.suffer(f)
	}
	clients.Wait()
	time.Sleep(settling + siteLongest + 40*time.Second)
	c.dump()
}

// siteLongest is the longest life of a timer that ends within a run.
const siteLongest = 30 * time.Second

// client asks nodes of both sites about timers of its own, one request after another.
func (c *siteCluster) client(ctx context.Context, number int) {
	r := rand.New(rand.NewPCG(c.setting.seed, 100+uint64(number)))
	var made []string
	for writes := 0; ctx.Err() == nil; writes++ {
		time.Sleep(between(r, 0, 2*time.Second))
		site := r.IntN(2)
		m := c.machines[site][r.IntN(c.setting.nodes)]
		unique := fmt.Sprintf("%d-%d", number, writes)
		op := siteOperation{site: site, url: urlOf([]string{promptly, promptly, promptly, slowly, flakily}[r.IntN(5)], unique)}
		switch draw := r.IntN(100); {
		case draw < 50 || len(made) == 0:
			op.kind, op.key = create, fmt.Sprintf("k-%s", unique)
			made = append(made, op.key)
		case draw < 80:
			op.kind, op.key = replace, made[max(len(made)-1-r.IntN(8), 0)]
		default:
			op.kind, op.key = remove, made[max(len(made)-1-r.IntN(8), 0)]
		}
		op.timer = drawSiteTimer(r, op.url)
		c.perform(ctx, m, &op)
	}
}

func drawSiteTimer(r *rand.Rand, url string) timer.Timer {
	t := timer.Timer{ReplicationFactor: 2, Callback: timer.Callback{URI: url}}
	switch draw := r.IntN(100); {
	case draw < 2:
		t.Interval = 10 * time.Hour
	case draw < 60:
		t.Interval = between(r, 200*time.Millisecond, 12*time.Second)
	case draw < 75:
		t.Interval = between(r, 12*time.Second, siteLongest)
	default:
		t.Interval = between(r, timer.MinRecurringInterval, 6*time.Second)
		t.RepeatFor = t.Interval * time.Duration(2+r.IntN(4))
	}
	return t
}

// perform sends a write to a node, and records the write.
func (c *siteCluster) perform(ctx context.Context, m *machine, op *siteOperation) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerWithin)
	defer cancel()
	op.invoked = c.now()
	var err error
	id := timer.ID{Key: op.key, RF: 2}
	heard, down := m.ask(func(s *scheduler.Scheduler) {
		if op.kind == remove {
			op.receipt, err = s.Delete(bounded, id)
		} else {
			op.receipt, err = s.Replace(bounded, id, op.timer)
		}
	})
	op.returned = c.now()
	switch {
	case down != nil:
		return // nobody was asked
	case heard && err == nil:
		op.outcome = acknowledged
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log.operations = append(c.log.operations, *op)
}

func (c *siteCluster) close() {
	for _, m := range slices.Concat(c.machines[0], c.machines[1]) {
		m.shutdown()
	}
	for _, m := range slices.Concat(c.machines[0], c.machines[1]) {
		m.running.Wait()
	}
	time.Sleep(2 * time.Second) // go-redis looks each second whether a pool that couldn't connect was closed
	c.receiver.Close()
	for _, sh := range slices.Concat(c.shards[0], c.shards[1]) {
		sh.close()
	}
	c.calls.close(c.t)
}
