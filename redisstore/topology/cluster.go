package topology

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"chronos/scheduler/timing"
)

// Shard is what the agreement needs of one shard. All methods are safe for concurrent use.
type Shard interface {
	// Name is the shard's name in the topology.
	Name() string
	// URL leads to the shard; it may hold a password.
	URL() string
	// Holds is the topology that the shard keeps under Key, as text; "" for no topology.
	Holds(ctx context.Context) (string, error)
	// Run runs the script topology.lua with the arguments, and returns the word with which the
	// script answers.
	Run(ctx context.Context, args ...any) (said string, err error)
	// Process names the Redis process that answers; "" while the process is not known, or has
	// no name.
	Process() string
	// Database is the number of the shard's database in the Redis process.
	Database() int
	// Close ends all connections. Calls under way are waited for.
	Close() error
}

// Options say what a Cluster works with.
type Options struct {
	Given []Member // the shards that the node was started with
	Node  string   // id of the node, in the name of every lock
	// Site is the site of the given shards, and Others are the other sites, as the node was told; "" and nil without
	// sites. The topology that the shards hold counts.
	Site   string
	Others []Site
	// Guest says that the node is of another site: the node follows the topology, and changes the topology only for an
	// operator, and as a substitute for the nodes of a site that has none yet.
	Guest bool
	Log   *slog.Logger
	// Connect makes a shard. Connect does not wait for the shard.
	Connect func(m Member) (Shard, error)
	// Adopt is told every topology but the first, before the node works by the topology.
	Adopt func(l *Topology)
	// Vacate is nil once a drained shard is empty. Vacate moves whatever can be moved.
	Vacate func(ctx context.Context, t *Topology, name string) error
	// Swept is nil if all of a shard has been swept for an epoch.
	Swept func(ctx context.Context, name string, epoch int64) error
	// Announced is how long a change is announced before the change counts. Drained is how long a shard must have
	// said that the shard is drained before the shard may go. 0 stands for the usual times.
	Announced, Drained time.Duration
}

// Cluster is a node's part in the agreement on the topology, and where timers belong by the
// topology that the node follows. It is safe for concurrent use.
type Cluster struct {
	o       Options
	current atomic.Pointer[Placement]
	origin  time.Time
	adopted atomic.Int64             // when the topology was adopted, ns since origin
	warned  atomic.Bool              // that the topology is not stored yet
	behind  atomic.Bool              // some shard holds an earlier topology, or no topology
	begun   atomic.Int32             // how many looks in a row found a later topology that isn't agreed on
	sure    atomic.Bool              // half of the shards have confirmed the node's topology once (stands)
	read    atomic.Int64             // when the shards last had no later topology, ns since origin; 0 for never
	founded atomic.Pointer[Topology] // the first topology, if this node has made it

	adopting sync.Mutex // held while current is replaced: a look and an operator's change may find the same topology
	mu       sync.Mutex
	opened   []Shard              // all connected shards, also shards of no topology
	unused   map[Shard]time.Time  // since when a connected shard is in no topology
	drained  map[string]time.Time // since when a shard has said at each look that the shard is drained
}

// New connects to the shards that the node was started with. Close ends the connections.
func New(o Options) (*Cluster, error) {
	o.Announced, o.Drained = cmp.Or(o.Announced, timing.AnnouncedFor), cmp.Or(o.Drained, timing.DrainedFor)
	c := &Cluster{o: o, origin: time.Now(), unused: map[Shard]time.Time{}, drained: map[string]time.Time{}}
	first := firstTopology(&o)
	shards, err := c.shardsOf(&first)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	c.current.Store(NewPlacement(first, shards))
	return c, nil
}

// Close ends all connections. Calls under way fail; no call may be made after Close.
func (c *Cluster) Close() error {
	var errs []error
	for _, sh := range c.Connected() {
		errs = append(errs, sh.Close())
	}
	return errors.Join(errs...)
}

// shardsOf are the shards of a topology, in list order. shardsOf connects to new shards, by the URL that the node was
// started with, if any.
func (c *Cluster) shardsOf(l *Topology) ([]Shard, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]Shard, len(l.Shards))
	for i, m := range l.Shards {
		m = c.known(m)
		at := slices.IndexFunc(c.opened, func(sh Shard) bool { return sh.Name() == m.Name && sh.URL() == m.URL })
		if at >= 0 {
			all[i] = c.opened[at]
			continue
		}
		sh, err := c.o.Connect(m)
		if err != nil {
			return nil, err
		}
		c.opened = append(c.opened, sh)
		all[i] = sh
	}
	return all, nil
}

// known is a shard at the URL that this node uses.
func (c *Cluster) known(m Member) Member {
	if at := slices.IndexFunc(c.o.Given, func(given Member) bool { return given.Name == m.Name }); at >= 0 {
		return c.o.Given[at]
	}
	return m
}

// Connected are all connected shards, also shards that are in no topology any more.
func (c *Cluster) Connected() []Shard {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.opened)
}

// Placement is where timers belong now.
func (c *Cluster) Placement() *Placement { return c.current.Load() }

// Topology is the topology that this node works by.
func (c *Cluster) Topology() Topology { return c.current.Load().Topology }
