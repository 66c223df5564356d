package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chronos/scheduler/awake"
	"chronos/scheduler/cluster"
	"chronos/scheduler/deadletter"
	"chronos/scheduler/deliveries"
	"chronos/scheduler/destinations"
	"chronos/scheduler/dispatch"
	"chronos/scheduler/forecast"
	"chronos/scheduler/listing"
	"chronos/scheduler/replica"
	"chronos/scheduler/resync"
	"chronos/scheduler/sample"
	"chronos/scheduler/settings"
	"chronos/scheduler/shard"
	"chronos/scheduler/site"
	"chronos/scheduler/statistics"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

// Scheduler is one node's engine, which takes timers from clients and fires timers. Make a
// Scheduler with New and let Run fire; the methods for clients (Create, Replace, Delete, Lookup)
// are safe for concurrent use before, during and after Run.
type Scheduler struct {
	config    settings.Config
	store     store.Store
	deliverer dispatch.Deliverer
	log       *slog.Logger

	shards   *shard.Registry
	copies   *replica.Keeper
	sites    *site.Sites
	dispatch *dispatch.Dispatcher
	tags     *statistics.Counter
	lists    *resync.Resyncer
	load     *forecast.Forecaster
}

// New makes an engine. The error lists every setting that is wrong.
func New(config settings.Config, backend store.Store, deliverer dispatch.Deliverer) (*Scheduler, error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("make scheduler: %w", err)
	}
	if config.Awake == nil {
		config.Awake = awake.Always()
	}
	if config.Destinations == nil {
		config.Destinations = destinations.NewBook(nil)
	}
	s := &Scheduler{config: config, store: backend, deliverer: deliverer, log: config.Log}
	s.shards = shard.New(&s.config, backend)
	s.tags = statistics.New(&s.config, s.shards)
	s.copies = replica.New(&s.config, s.shards, s.tags.Recount)
	s.sites = site.New(&s.config, s.shards, s.copies)
	s.dispatch = dispatch.New(&s.config, s.shards, s.copies, s.sites, deliverer)
	s.lists = resync.New(&s.config, s.shards)
	s.load = forecast.New(&s.config, s.shards)
	s.shards.Tell = (&teller{config: &s.config, dispatch: s.dispatch}).tell
	if config.Registerer == nil {
		return s, nil
	}
	for _, all := range [][]prometheus.Collector{s.shards.Collectors(), s.copies.Collectors(), s.sites.Collectors(), s.dispatch.Collectors(), {s.tags}} {
		for _, c := range all {
			if err := config.Registerer.Register(c); err != nil {
				return nil, fmt.Errorf("make scheduler: %w", err)
			}
		}
	}
	return s, nil
}

// Run claims and fires until ctx ends. Then Run has other live nodes take the partitions over,
// claims no more, and calls back the claimed timers. Timers that find no slot go back to their
// shards. Run lets callbacks under way end (within the limit), settles the outcomes, and returns.
// Outcomes that can't be settled in time are left to the leases. Call Run at most once.
func (s *Scheduler) Run(ctx context.Context) {
	lasting := context.WithoutCancel(ctx)
	claiming, stopClaiming := context.WithCancel(lasting)
	defer stopClaiming()
	work, stopWork := context.WithCancel(lasting)
	defer stopWork()
	turning, stopWheel := context.WithCancel(lasting)
	defer stopWheel()
	c := crew{s: s, watching: ctx, polling: claiming, work: work, leave: map[*shard.Shard]func(){}}
	stopTelling := s.tellUntilStopped(lasting)
	defer stopTelling()
	var wheels sync.WaitGroup
	wheels.Go(func() { s.dispatch.Turn(turning) })
	c.watches.Go(func() { s.copies.Repair(ctx) })
	c.watches.Go(func() { s.sites.Run(ctx) })
	c.follow() // ends with ctx
	c.watches.Wait()
	s.copies.LeaveRepairs(lasting)
	s.handOver(lasting)
	stopClaiming()
	c.polls.Wait()
	if s.dispatch.Waiting() {
		// Nobody else would call the waiting timers back in time.
		awake.Sleep(lasting, s.config.Horizon())
	}
	stopWheel()
	wheels.Wait()
	s.dispatch.Finish(lasting)
	stopWork()
	c.loops.Wait()
	s.dispatch.Wait()
}

// handOverTime is how long other nodes need to learn that this node has left, and to poll in its
// place.
const handOverTime = timing.BeatInterval + 150*time.Millisecond

// handOver withdraws the node, and goes on claiming until other nodes take over.
func (s *Scheduler) handOver(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, s.config.Settling)
	defer cancel()
	begun := time.Now()
	var leaving sync.WaitGroup
	others := false
	for _, sh := range s.shards.All() {
		others = others || sh.OthersLive()
		leaving.Go(func() {
			if err := s.store.Leave(bounded, sh.Name); err != nil {
				s.log.Debug("could not withdraw from shard", "shard", sh.Name, "err", err)
			}
		})
	}
	leaving.Wait()
	if others {
		awake.Sleep(ctx, handOverTime-time.Since(begun))
	}
}

// Ready is nil if this node should get requests. The error says that the node doesn't know where to
// write, that no shard has answered a heartbeat and its last claim, or that no node claims overdue
// timers of a shard.
func (s *Scheduler) Ready() error {
	if err := errors.Join(s.store.Writable(), s.sites.Ready()); err != nil {
		return err
	}
	answers := false
	for _, sh := range s.shards.All() {
		if err := sh.Neglected(); err != nil {
			return err
		}
		answers = answers || sh.Usable()
	}
	if !answers {
		return fmt.Errorf("%w: no shard answers", timer.ErrUnavailable)
	}
	return nil
}

// tellUntilStopped logs how many lines were left out, every ten seconds and at the end, until the
// caller calls stop. The call of stop waits for the end.
func (s *Scheduler) tellUntilStopped(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		sample.TellRest(ctx, s.log, slices.Concat(s.dispatch.LogLines(), s.copies.LogLines(), []*sample.Line{s.lists.Unlisted})...)
	}()
	return func() { cancel(); <-done }
}

// Observe makes an observer of the cluster, whose Run the caller calls. The inspector looks at the shards of
// the engine's store.
func (s *Scheduler) Observe(inspector store.Inspector) *cluster.Observer {
	return cluster.New(&s.config, s.shards, inspector, s.dispatch.Figures)
}

// Lister finds timers among all timers, and changes the timers found.
func (s *Scheduler) Lister() *listing.Lister {
	return listing.New(&s.config, s.shards, s.deliverer.Destination, s)
}

// Deliveries is the log of deliveries in backend; nil if the configuration has no log.
func (s *Scheduler) Deliveries(backend store.LogStore) *deliveries.Log {
	if !s.config.Deliveries {
		return nil
	}
	return deliveries.New(&s.config, s.shards, backend)
}

// Letters are the dead letters of backend, which fire again through this engine.
func (s *Scheduler) Letters(backend store.LetterStore) *deadletter.Letters {
	return deadletter.New(&s.config, s.sites, backend, s.deliverer.Check, s.deliverer.Destination)
}
