// Package shard is one Redis deployment as this process reaches it: connections for the kinds of calls, script calls,
// the shard's clock, the shard's losses of data, and the state of the shard's sweep. Script calls go out one by one,
// by items, or gathered from many callers.
package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"chronos/redisstore/endpoint"
	"chronos/redisstore/topology"
	"chronos/scheduler/awake"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

// Pool sizes per role: clients' requests must not take the connections that callbacks need, nor the other way round.
const (
	frontPool = 24
	pollPool  = 8  // polls, heartbeats, the sweep and the topology
	firePool  = 16 // fences and settlements of timers that fire here: a connection for each loop that sends such calls
	askPool   = 32 // comparisons and outcomes for remote timers, repairs; may wait for no answer
)

// Options say how a Shard works.
type Options struct {
	// Connections is by what factor a shard may exceed these pool sizes, and Opened by what factor connections are
	// opened ahead.
	Connections, Opened int
	// Far says that the shard is another site's.
	Far   bool
	Awake *awake.Clock
	Log   *slog.Logger
	Flush func(*Shard, []*Item) // sends the items that Submit has gathered
	// Durations takes how long a round trip took, by the labels shard and script; nil for nobody.
	Durations prometheus.ObserverVec
}

// Shard is one Redis deployment, as this process reaches it. All methods are safe for concurrent use.
type Shard struct {
	Clock *Clock
	Log   *slog.Logger

	Front, Poll, Fire, Ask redis.UniversalClient // for Eval; Poll for other commands, too

	name, url string
	options   Options
	under     sync.WaitGroup // conversations, until their answer is read
	scripts   scripts
	durations map[string]prometheus.Observer // by script; nil for nobody
	apart     atomic.Bool                    // a Redis of a Cluster: a call takes keys of one partition
	*batcher                                 // of Submit

	verified atomic.Bool
	identity atomic.Pointer[string]   // of the process verified last; nil before, "-" for a process that won't say
	lostAt   atomic.Int64             // ns of the clock, when this node last noticed that data was lost; 0 for never
	beaten   atomic.Bool              // this node has announced itself
	gap      atomic.Int64             // the longest time without any node's announcement, ns, since a sweep was wanted
	warned   atomic.Bool              // that the shard has no append-only file
	warming  atomic.Bool              // connections are being opened
	members  atomic.Pointer[[]string] // host:port of the members of a Sentinel group or Cluster; nil until learnt
	tcpPort  atomic.Pointer[string]   // the port on which the Redis says it listens; nil until said
	mu       sync.Mutex
	checking *check
}

// check is one look at a shard, for which several callers wait.
type check struct {
	done chan struct{}
	err  error
}

// UnfitError says that a shard must not be used in its present configuration.
type UnfitError struct{ policy string }

func (e UnfitError) Error() string {
	return "maxmemory-policy " + e.policy + " evicts timers when memory is full; " +
		"run CONFIG SET maxmemory-policy noeviction on it and put that line into its configuration"
}

// New makes a Shard, which Close ends. Nothing is sent before the first call.
func New(config endpoint.Config, o Options) (*Shard, error) {
	connect, err := config.Connector()
	if err != nil {
		return nil, fmt.Errorf("shard %s: %w", config.Name, err)
	}
	s := &Shard{Clock: newClock(), Log: o.Log.With("shard", config.Name), name: config.Name, url: config.URL, options: o, scripts: loadScripts()}
	s.durations = s.durationsOf(o.Durations)
	connections, patience, more := o.Connections, flushPatience, moreFlushers
	if o.Far { // a connection for each flush
		connections, patience, more = connections*(farFlushers+flushers)/frontPool, farPatience, farFlushers
	}
	for _, pool := range s.pooled() {
		*pool.client = connect(connections*pool.share, s.meet, o.Awake)
	}
	s.batcher = newBatcher(func(items []*Item) { o.Flush(s, items) }, patience, more)
	return s, nil
}

// pooled are the shard's clients with the sizes of their pools.
func (s *Shard) pooled() []pool {
	return []pool{{&s.Front, frontPool}, {&s.Poll, pollPool}, {&s.Fire, firePool}, {&s.Ask, askPool}}
}

type pool struct {
	client *redis.UniversalClient
	share  int
}

// Close waits for queued writes, a check and conversations under way, all with time limits, and then ends all
// connections.
func (s *Shard) Close() error {
	s.drain()
	s.Wait()
	var errs []error
	for _, pool := range s.pooled() {
		errs = append(errs, (*pool.client).Close())
	}
	return errors.Join(errs...)
}

// Wait waits for a check and conversations under way, all with time limits.
func (s *Shard) Wait() {
	s.mu.Lock()
	c := s.checking
	s.mu.Unlock()
	if c != nil {
		<-c.done
	}
	s.under.Wait()
}

// Name is topology.Shard's.
func (s *Shard) Name() string { return s.name }

// URL is topology.Shard's.
func (s *Shard) URL() string { return s.url }

// Holds is topology.Shard's.
func (s *Shard) Holds(ctx context.Context) (string, error) {
	if err := s.Ready(ctx); err != nil {
		return "", err
	}
	text, err := s.Poll.HGet(ctx, topology.Key, topology.Field).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", s.Unavailable(err)
	}
	return text, nil
}

// Run is topology.Shard's.
func (s *Shard) Run(ctx context.Context, args ...any) (said string, err error) {
	words, err := s.Do(ctx, "topology", []string{topology.Key}, args...)
	if err != nil {
		return "", err
	}
	return words[0], nil
}

// Process is topology.Shard's.
func (s *Shard) Process() string {
	if identity := s.identity.Load(); identity != nil && *identity != unnamedProcess {
		return *identity
	}
	return ""
}

// Database is topology.Shard's.
func (s *Shard) Database() int {
	if c, single := s.Poll.(*redis.Client); single {
		return c.Options().DB
	}
	return 0
}

// Ready verifies the shard unless the shard was verified since its last loss. A caller whose ctx ends first gets the
// error of ctx; the check goes on with a separate time limit.
func (s *Shard) Ready(ctx context.Context) error {
	if s.verified.Load() {
		return nil
	}
	s.mu.Lock()
	c := s.checking
	if c == nil {
		c = &check{done: make(chan struct{})}
		s.checking = c
		go s.runCheck(c)
	}
	s.mu.Unlock()
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return s.impatient(ctx)
	}
}

func (s *Shard) runCheck(c *check) {
	ctx, cancel := s.options.Awake.WithTimeout(context.Background(), timing.DialTimeout+timing.IOTimeout)
	defer cancel()
	c.err = s.verify(ctx)
	if c.err == nil {
		s.verified.Store(true)
		s.warm()
	}
	s.mu.Lock()
	s.checking = nil
	s.mu.Unlock()
	close(c.done)
}

// warm opens connections before a call needs them, beside all other work: opening a connection costs a slow shard's
// caller as much time again. A second warm at the same time would need more connections than a pool has, and the two
// warms would wait for one another.
func (s *Shard) warm() {
	if !s.warming.CompareAndSwap(false, true) {
		return
	}
	var opening sync.WaitGroup
	for _, pool := range s.pooled() {
		single, is := (*pool.client).(*redis.Client)
		if !is {
			continue // a Cluster's client has a pool for every node, and opens the pools itself
		}
		opening.Go(func() { open(single, s.options.Opened*pool.share) })
	}
	s.under.Go(func() { opening.Wait(); s.warming.Store(false) })
}

// spare are the connections of a pool that callers may open while open opens connections ahead.
const spare = 2

// open opens the missing connections of a pool: open holds enough connections at once to force new connections, and
// gives them back. The caller of the next call sees why a connection could not be opened.
func open(client *redis.Client, connections int) {
	stats := client.PoolStats()
	busy := int(stats.TotalConns) - int(stats.IdleConns)
	connections -= spare
	if int(stats.TotalConns) >= connections || busy >= connections {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), timing.DialTimeout+timing.IOTimeout)
	defer cancel()
	all := make([]*redis.Conn, connections-busy)
	var pings sync.WaitGroup
	for i := range all {
		all[i] = client.Conn()
		pings.Go(func() { all[i].Ping(ctx) })
	}
	pings.Wait()
	for _, conn := range all {
		_ = conn.Close()
	}
}

// verify reads the shard's clock, and refuses a shard that may lose timers.
func (s *Shard) verify(ctx context.Context) error {
	pipe, sent := s.Poll.Pipeline(), s.Clock.Now()
	now := pipe.Time(ctx)
	info := pipe.Info(ctx)
	noticed := pipe.HMGet(ctx, sweptKey, identityFields()...)
	// A failure before anything is sent may leave no error at the commands.
	if _, err := pipe.Exec(ctx); err != nil && (now.Err() != nil || now.Val().IsZero()) {
		return s.Unavailable(err)
	}
	facts := parseInfo(info.Val())
	if err := fit(facts); err != nil {
		return s.Unavailable(err)
	}
	if facts["loading"] == "1" {
		return s.Unavailable(errors.New("it is loading its data"))
	}
	if facts["aof_enabled"] == "0" && !s.warned.Swap(true) {
		s.warnOfLoss(ctx)
	}
	port := cmp.Or(facts["tcp_port"], "0")
	s.identifyFirst(identityOf(facts), noticed.Val())
	s.tcpPort.Store(&port)
	s.Clock.Learn(sent, now.Val().UnixMicro())
	return nil
}

// LeftAlone notes for how long no node has announced itself.
func (s *Shard) LeftAlone(gap time.Duration) {
	for old := s.gap.Load(); int64(gap) > old && !s.gap.CompareAndSwap(old, int64(gap)); old = s.gap.Load() {
	}
}

// meet looks at each new connection: a Redis that was away may come back with another configuration, or as another
// process, before any call has failed.
func (s *Shard) meet(ctx context.Context, conn *redis.Conn) error {
	info, err := conn.Info(ctx).Result()
	var answer redis.Error
	if err != nil && !errors.As(err, &answer) {
		return err
	}
	facts := parseInfo(info) // empty for a Redis that won't say
	if s.identity.Load() != nil && s.identify(identityOf(facts)) && ctx.Value(sameProcess{}) != nil {
		return ErrNewProcess
	}
	return fit(facts)
}

// unnamedProcess is the identity of a Redis that does not name its process.
const unnamedProcess = "-"

// identityOf names a shard's process: another process may have lost data that the process before had not written to
// disk. The identity is "-" for a shard that won't say, and for a Cluster of many processes.
func identityOf(facts map[string]string) string {
	if facts["cluster_enabled"] == "1" {
		return unnamedProcess
	}
	return cmp.Or(facts["run_id"], unnamedProcess)
}

func fit(facts map[string]string) error {
	if policy := facts["maxmemory_policy"]; policy != "" && policy != "noeviction" {
		return UnfitError{policy: policy}
	}
	return nil
}

// warnOfLoss logs how a shard without an append-only file loses data.
func (s *Shard) warnOfLoss(ctx context.Context) {
	if s.snapshots(ctx) {
		s.Log.Warn("shard has no append-only file: when it is killed it loses what it has stored since its last snapshot; set appendonly yes")
		return
	}
	s.Log.Warn("shard persists nothing: its timers are lost when it restarts; set appendonly yes")
}

// snapshots reports whether the shard saves itself now and then; true for a shard that won't say.
func (s *Shard) snapshots(ctx context.Context) bool {
	save, err := s.Poll.ConfigGet(ctx, "save").Result()
	return err != nil || save["save"] != ""
}

func parseInfo(info string) map[string]string {
	facts := map[string]string{}
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			facts[name] = value
		}
	}
	return facts
}

// Unavailable wraps an error of the shard, and has the shard verified before the next use, since the shard may come
// back as another process. A call that got no connection in time was never sent, and says nothing of the shard. A
// verification before the next calls would make a late shard later still.
func (s *Shard) Unavailable(err error) error {
	var answer redis.Error
	answered := errors.As(err, &answer)
	if answered && readonly(answer) || !answered && !errors.Is(err, redis.ErrPoolTimeout) {
		s.verified.Store(false)
	}
	kind := timer.ErrUnavailable
	if answered || errors.Is(err, syscall.ECONNREFUSED) {
		kind = timer.ErrRefused
	}
	return fmt.Errorf("%w: shard %s: %w", kind, s.name, err)
}

func readonly(err error) bool {
	return strings.HasPrefix(err.Error(), "READONLY") || strings.HasPrefix(err.Error(), "LOADING")
}
