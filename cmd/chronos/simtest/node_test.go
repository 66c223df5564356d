package simtest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"chronos/redisstore"
	"chronos/redisstore/endpoint"
	"chronos/redisstore/topology"
	"chronos/scheduler"
	"chronos/scheduler/awake"
	"chronos/scheduler/settings"
	"chronos/scheduler/store"
	"chronos/scheduler/webhook"
)

// errDown says that a node doesn't run; the node was asked nothing.
var errDown = errors.New("node is down")

// errRuns says that the node runs already. The next fault was over before the node had stopped.
var errRuns = errors.New("it runs")

// machine is the host of a node's processes, one process at a time. The links and the wall clock outlive the
// processes. A machine is safe for concurrent use.
type machine struct {
	name     string
	timing   timing
	log      *slog.Logger
	shards   []*shard
	given    int               // how many of the shards the node is started with
	opened   int               // redisstore.Options.Opened
	logs     int               // redisstore.Options.Deliveries
	site     string            // of the node; "" without sites
	siteOf   map[string]string // by shard
	listed   bool              // the node's list of shards is kept up to date, as docs/topology.md advises
	last     *process          // the process assembled last
	links    map[string]*link  // by the name of the shard
	receiver *link
	trap     *trap
	boot     time.Time
	wall     atomic.Int64 // how far the wall clock is ahead, ns

	running sync.WaitGroup // processes, until all their goroutines have ended
	pausing pausing

	mu      sync.Mutex
	starts  int
	current *process      // nil if no process runs
	pauses  int           // of the current process
	resumed chan struct{} // closed when the last pause is over; nil without a pause
	lifts   []func()      // of the freezes of a pause
}

// timing is the part of an engine's configuration that a run chooses.
type timing struct {
	poll, grace time.Duration
	skew        store.Skew
}

// process is one life of a node: the engine, the store and the client for callbacks, assembled as the command
// does, without the HTTP edge.
type process struct {
	id     string
	engine *scheduler.Scheduler
	store  *redisstore.Store
	client *webhook.Client
	stop   context.CancelFunc
	dead   atomic.Bool    // the process was killed
	asked  sync.WaitGroup // operations under way
	closed bool           // the process takes no more operations; guarded by the machine's mutex
	ended  chan struct{}  // closed when all goroutines of the process have ended
}

func (p *process) killed() bool { return p != nil && p.dead.Load() }

func newMachine(name string, timing timing, log *slog.Logger, shards []*shard, given int, accept func(net.Conn) bool) *machine {
	m := &machine{
		name: name, timing: timing, log: log.With("node", name), shards: shards, given: given, links: map[string]*link{},
		receiver: newLink(name, "receiver", accept), trap: &trap{}, boot: time.Now(),
		pausing: pausing{boot: time.Now()},
	}
	for _, s := range shards {
		l := newLink(name, s.name, s.accept)
		l.trap = m.trap
		m.links[s.name] = l
		s.links = append(s.links, l)
	}
	return m
}

// allLinks returns the links to the shards and to the receiver.
func (m *machine) allLinks() []*link {
	all := []*link{m.receiver}
	for _, s := range m.shards {
		all = append(all, m.links[s.name])
	}
	return all
}

// start starts a process if none runs, and blocks while the store opens.
func (m *machine) start(ctx context.Context) error {
	m.mu.Lock()
	if m.current != nil {
		m.mu.Unlock()
		return fmt.Errorf("start %s: %w", m.name, errRuns)
	}
	m.starts++
	p := &process{id: fmt.Sprintf("%s-%d", m.name, m.starts), ended: make(chan struct{}), closed: true}
	m.current = p
	m.mu.Unlock()
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	p.stop = stop
	if err := m.assemble(run, p); err != nil {
		stop()
		m.mu.Lock()
		m.current = nil
		m.mu.Unlock()
		return fmt.Errorf("start %s: %w", m.name, err)
	}
	m.running.Go(func() { m.life(run, p) })
	m.mu.Lock()
	p.closed = p.dead.Load()
	m.mu.Unlock()
	return nil
}

// listedShards returns the shards for the start of a process. In runs with losses of data, these are the
// shards that the previous process knew. Nodes that know only a removed and emptied shard would begin a
// topology of their own.
func (m *machine) listedShards() (all []*shard) {
	if !m.listed || m.last == nil {
		return m.shards[:m.given]
	}
	members := m.last.store.Topology().Shards
	return slices.DeleteFunc(slices.Clone(m.shards), func(s *shard) bool {
		return !slices.ContainsFunc(members, func(member topology.Member) bool { return member.Name == s.name })
	})
}

func (m *machine) assemble(ctx context.Context, p *process) (err error) {
	dial := func(ctx context.Context, _, address string) (net.Conn, error) {
		name, _, _ := strings.Cut(address, ".")
		return m.links[name].dial(ctx, p)
	}
	clock := awake.Following(m.pausing.elapsed)
	options := redisstore.Options{Node: p.id, Lane: "http", Log: m.log, Dial: dial, Connections: 8, Opened: m.opened, Deliveries: m.logs, Awake: clock}
	var shards []endpoint.Config
	for _, s := range m.listedShards() {
		shards = append(shards, endpoint.Config{Name: s.name, URL: s.url(), Dial: dial, Site: m.siteOf[s.name]})
	}
	options.Site = m.site
	options.Shards, options.Others = redisstore.BySite(shards, m.site)
	if p.store, err = redisstore.Open(ctx, options); err != nil {
		return err
	}
	if err := p.store.Join(ctx); err != nil {
		return errors.Join(err, p.store.Close())
	}
	m.last = p
	p.client = webhook.New(webhook.Config{
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return m.receiver.dial(ctx, p) },
	})
	config := settings.Default(p.id, m.log)
	config.PollInterval, config.Grace, config.Skew = m.timing.poll, m.timing.grace, m.timing.skew
	config.TombLife, config.Deliveries = tombLife, m.logs > 0
	config.SinceBoot = func() time.Duration { return time.Hour + time.Since(m.boot) }
	config.Wall, config.Awake = m.now, clock
	if p.engine, err = scheduler.New(config, p.store, p.client); err != nil {
		p.client.Close()
		return errors.Join(err, p.store.Close())
	}
	return nil
}

// life runs the engine until the process is stopped. Then life ends the other parts in the command's order.
func (m *machine) life(ctx context.Context, p *process) {
	defer close(p.ended)
	following, unfollow := context.WithCancel(context.WithoutCancel(ctx))
	var follower sync.WaitGroup
	follower.Go(func() { p.store.Follow(following) })
	p.engine.Run(ctx)
	m.leave(p)
	p.asked.Wait()
	unfollow()
	follower.Wait()
	p.client.Close()
	if err := p.store.Close(); err != nil {
		m.log.Debug("store closed", "err", err)
	}
}

// pausing records the pauses of a machine's processes. A pausing is safe for concurrent use.
type pausing struct {
	boot time.Time

	mu      sync.Mutex
	since   time.Time // when the present pause began; zero without a pause
	paused  time.Duration
	resumed time.Duration // when the last pause that counts as a stop was over, in time awake
}

func (p *pausing) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since = time.Now()
}

func (p *pausing) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	took := time.Since(p.since)
	p.paused += took
	p.since = time.Time{}
	if took >= awake.Standstill {
		p.resumed = time.Since(p.boot) - p.paused
	}
}

// elapsed returns how long the machine's processes have run without the pauses. resumed is the running time
// at the end of the last pause that counts as a stop.
func (p *pausing) elapsed() (running, resumed time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if !p.since.IsZero() {
		now = p.since
	}
	return now.Sub(p.boot) - p.paused, p.resumed
}

// now is the machine's wall clock.
func (m *machine) now() time.Time { return time.Now().Add(time.Duration(m.wall.Load())) }

// leave ends the process's intake of operations, and frees the machine for the next process.
func (m *machine) leave(p *process) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p.closed = true
	if m.current == p {
		m.current = nil
	}
}

// shutdown stops the process in order, as SIGTERM does: the process takes no more operations, and the
// engine's Run ends. shutdown returns at once. The returned channel is closed when all has ended.
func (m *machine) shutdown() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.current
	if p == nil {
		ended := make(chan struct{})
		close(ended)
		return ended
	}
	p.closed = true
	p.stop()
	return p.ended
}

// kill ends the process, as SIGKILL does. From now on no write of the process leaves the machine; earlier
// writes still arrive. Operations under way get no answer. The goroutines of the process end by themselves,
// unseen.
func (m *machine) kill() {
	m.mu.Lock()
	p := m.current
	m.current = nil
	if p != nil {
		p.closed = true
		p.dead.Store(true)
	}
	m.mu.Unlock()
	if p == nil {
		return
	}
	for _, l := range m.allLinks() {
		l.orphan(p)
	}
	p.stop()
	m.thaw(true)
}

// pause stops the process, as SIGSTOP does, until the caller calls resume, once. A bubble can't stop
// goroutines: they go on, but read and write nothing, and clients hear nothing of their operations. Timeouts
// run out as after the wake-up of a real process, only sooner. Writes happen at the wake-up, unless the
// deadline of the write has passed.
func (m *machine) pause() (resume func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.current
	if p == nil {
		return func() {}
	}
	if m.pauses++; m.pauses == 1 {
		m.resumed = make(chan struct{})
		m.pausing.begin()
		for _, l := range m.allLinks() {
			m.lifts = append(m.lifts, l.impose(Freeze))
		}
	}
	return sync.OnceFunc(func() {
		if !p.killed() {
			m.thaw(false)
		}
	})
}

// thaw ends one pause, or all.
func (m *machine) thaw(all bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pauses == 0 {
		return
	}
	if m.pauses--; m.pauses > 0 && !all {
		return
	}
	m.pauses = 0
	close(m.resumed)
	m.resumed = nil
	m.pausing.end()
	for _, lift := range m.lifts {
		lift()
	}
	m.lifts = nil
}

// awake waits while the machine's process is paused.
func (m *machine) awake() {
	for {
		m.mu.Lock()
		resumed := m.resumed
		m.mu.Unlock()
		if resumed == nil {
			return
		}
		<-resumed
	}
}

// ask has the process carry out a client's request, and reports whether the client hears the outcome. A
// paused process carries the request out when awake. err is errDown if no process takes the request.
func (m *machine) ask(do func(*scheduler.Scheduler)) (heard bool, err error) {
	return m.have(func(p *process) { do(p.engine) })
}

// operate is ask for the request of an operator.
func (m *machine) operate(do func(*redisstore.Store)) (heard bool, err error) {
	return m.have(func(p *process) { do(p.store) })
}

func (m *machine) have(do func(*process)) (heard bool, err error) {
	m.mu.Lock()
	p := m.current
	if p == nil || p.closed {
		m.mu.Unlock()
		return false, errDown
	}
	p.asked.Add(1)
	m.mu.Unlock()
	defer p.asked.Done()
	m.awake()
	if p.killed() {
		return false, nil
	}
	do(p)
	m.awake()
	return !p.killed(), nil
}

// topology is the topology of the machine's process; false if no process takes operations.
func (m *machine) topology() (topology.Topology, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.current == nil || m.current.closed {
		return topology.Topology{}, false
	}
	return m.current.store.Topology(), true
}

// up reports whether the machine's process takes operations.
func (m *machine) up() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.current != nil && !m.current.closed
}
