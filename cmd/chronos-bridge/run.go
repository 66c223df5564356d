package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"chronos/api"
	"chronos/api/tokens"
	"chronos/cmd/internal/certificate"
	"chronos/cmd/internal/environment"
	"chronos/cmd/internal/localtoken"
	"chronos/cmd/internal/operator"
	"chronos/cmd/internal/process"
	"chronos/redisstore"
	"chronos/redisstore/endpoint"
	"chronos/scheduler"
	"chronos/scheduler/awake"
	"chronos/scheduler/kafka"
	"chronos/scheduler/settings"
	"chronos/scheduler/timing"
)

// run is a bridge's whole life: from reading the environment until ctx has ended and all
// work under way is over.
func run(ctx context.Context, environ []string, logTo io.Writer) error {
	cfg, err := environment.LoadBridge(environ)
	if err != nil {
		return fmt.Errorf("the environment is wrong; `chronos-bridge help` lists its variables:\n%w", err)
	}
	w, err := newWorker(ctx, cfg, localtoken.RuntimeDir(environ), process.NewLog(logTo, cfg.LogLevel, cfg.LogFormat))
	if err != nil {
		return err
	}
	return w.run(ctx)
}

// worker is the process of a bridge. The worker owns all its fields and ends them in run.
type worker struct {
	id          string
	log         *slog.Logger
	awake       *awake.Clock
	store       *redisstore.Store
	bridge      *kafka.Bridge
	engine      *scheduler.Scheduler
	admin       *api.Admin
	tokens      *tokens.Keeper    // nil without a file of tokens
	local       *localtoken.Token // nil with a file of tokens
	adminAt     net.Listener
	limit       time.Duration       // how long the publishing may go on at a stop
	keepDead    time.Duration       // how long dead letters are kept
	certificate *certificate.Keeper // nil for a listener without TLS
	draining    atomic.Bool
}

// newWorker puts a bridge together and opens its listener. A newWorker that fails closes
// again all that was opened. A token that the bridge makes is in runtimeDir.
func newWorker(ctx context.Context, cfg environment.Bridge, runtimeDir localtoken.Dir, log *slog.Logger) (_ *worker, err error) {
	w := &worker{id: uuid.NewString(), log: log, awake: awake.Start(), keepDead: cfg.DeadRetention}
	log.Info("bridge starts", "node", w.id)
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	if cfg.TokensFile != "" {
		if w.tokens, err = tokens.Open(tokens.KeeperConfig{Path: cfg.TokensFile, Log: log}); err != nil {
			return nil, fmt.Errorf("CHRONOS_TOKENS_FILE: %w", err)
		}
	}
	if w.certificate, err = certificate.Open(cfg.Files(), log); err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	if w.adminAt, err = lc.Listen(ctx, "tcp", cfg.AdminListen); err != nil {
		return nil, fmt.Errorf("listen for health and metrics; set CHRONOS_BRIDGE_ADMIN_LISTEN to a free address: %w", err)
	}
	if w.tokens == nil {
		if w.local, err = localtoken.Make(w.adminAt.Addr(), runtimeDir); err != nil {
			return nil, err
		}
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(process.Collectors()...)
	if err := w.openStore(ctx, &cfg, registry); err != nil {
		return nil, err
	}
	operator.WarnOfFewCopies(log, w.store, cfg.Replication, fmt.Sprintf("set CHRONOS_KAFKA_REPLICATION=%d", len(w.store.Topology().Active)))
	if w.bridge, err = kafka.Open(ctx, bridgeConfig(&cfg, log, registry)); err != nil {
		return nil, err
	}
	engine := engineConfig(&cfg, w.id, log, registry)
	engine.Awake = w.awake
	w.limit = engine.Limit + engine.Settling
	if w.engine, err = scheduler.New(engine, w.store, w.bridge); err != nil {
		return nil, err
	}
	admin := api.AdminConfig{
		Ready: w.ready, Hosts: cfg.AdminHosts, Topology: operator.Operator{Store: w.store}, Letters: w.engine.Letters(w.store), Gatherer: registry, Log: log,
	}
	if w.tokens != nil { // an interface that holds a nil pointer is not nil
		admin.Authorizer = w.tokens
	} else {
		admin.Authorizer, admin.OpenReads = w.local, true
	}
	w.admin = api.NewAdmin(admin)
	return w, nil
}

// openStore opens the store of the bridge's own site, which has all messages of the bridge.
func (w *worker) openStore(ctx context.Context, cfg *environment.Bridge, registry prometheus.Registerer) error {
	shards, err := endpoint.Parse(cfg.Redis)
	if err != nil {
		return fmt.Errorf("CHRONOS_REDIS: %w", err)
	}
	own, others := redisstore.BySite(shards, cfg.Site)
	if cfg.Site != "" {
		w.log.Info("a bridge keeps messages at its own site", "site", cfg.Site)
	}
	w.store, err = redisstore.Open(ctx, redisstore.Options{
		Shards: own, Site: cfg.Site, Others: others, Alone: true, Node: w.id, Lane: "kafka", Log: w.log, Awake: w.awake, Registerer: registry,
	})
	if err != nil {
		return err
	}
	if err := w.store.Join(ctx); err != nil {
		return err
	}
	return w.dedicate(ctx, cfg)
}

// dedicate fails if bridges of different topics or groups run on the same Redis. Otherwise every
// bridge would publish messages of all topics, and would take equal ids for the same message.
func (w *worker) dedicate(ctx context.Context, cfg *environment.Bridge) error {
	err := w.store.Dedicate(ctx, fmt.Sprintf("input %s, output %s, group %s", cfg.Input, cfg.Output, cfg.Group))
	if errors.Is(err, redisstore.ErrDedicated) {
		return fmt.Errorf("bridges of other topics, or of another group, run on this Redis; give these a database of their own in CHRONOS_REDIS, such as redis://127.0.0.1:6379/1, or stop the others first: %w", err)
	}
	return err
}

func bridgeConfig(cfg *environment.Bridge, log *slog.Logger, registry prometheus.Registerer) kafka.Config {
	config := kafka.Config{
		Connection: kafka.Connection{
			Brokers: cfg.Brokers, TLS: cfg.TLS, CAFile: cfg.CAFile, CertFile: cfg.CertFile, KeyFile: cfg.KeyFile,
			SASL: cfg.SASL, User: cfg.User, Password: cfg.Password, ClientID: "chronos-bridge",
		},
		Input: cfg.Input, Output: cfg.Output, DeadLetters: cfg.DeadLetters, Group: cfg.Group,
		AutoAdvance: cfg.Advance == environment.AutoAdvance, ReplicationFactor: cfg.Replication, RelayID: cfg.RelayID, MaxPending: cfg.Slots,
		Log: log, Registerer: registry,
	}
	if !config.AutoAdvance {
		config.Advance = time.Duration(cfg.Advance)
	}
	return config
}

func engineConfig(cfg *environment.Bridge, id string, log *slog.Logger, registry prometheus.Registerer) settings.Config {
	engine := settings.Default(id, log)
	// No other bridge may begin before Hold is over. The last part of Hold is for settling.
	engine.PollInterval, engine.Hold, engine.Limit, engine.Renew = cfg.PollInterval, cfg.Hold, cfg.Hold-timing.SettleTime, true
	engine.Attempts = math.MaxInt32 // only a message that the output refuses is given up
	engine.Slots, engine.MinCopies = cfg.Slots, cfg.MinCopies
	engine.IdempotencyLife, engine.SweepRate, engine.AwayLimit = cfg.Remember, cfg.SweepRate, cfg.AwayLimit
	engine.Skew.Max = cfg.ReplicaSkew
	engine.PreciseSleep = true
	engine.Registerer = registry
	return engine
}

func (w *worker) ready() error {
	if w.draining.Load() {
		return errors.New("the bridge is stopping")
	}
	return w.engine.Ready()
}

// run moves messages until ctx ends or a listener fails. Then the bridge stops in this order:
// not ready, no more records, read records stored and committed, group left, no more claims,
// due messages published and settled, store closed.
func (w *worker) run(ctx context.Context) error {
	lasting := context.WithoutCancel(ctx)
	stopClaiming := process.Beside(ctx, w.engine.Run)
	unfollow := process.Beside(ctx, w.store.Follow)
	stopPruning := process.Beside(ctx, func(ctx context.Context) { w.store.PruneLetters(ctx, w.keepDead) })
	keep := func(ctx context.Context) { w.local.Keep(ctx, w.log) }
	if w.tokens != nil {
		keep = w.tokens.Run
	}
	defer process.Beside(ctx, keep)()
	reading, stopReading := context.WithCancel(lasting)
	defer stopReading()
	read, failed := make(chan error, 1), make(chan error, 1)
	go func() { read <- w.bridge.Run(reading, w.engine) }()
	defer process.Beside(ctx, w.certificate.Run)()
	go func() { failed <- w.admin.Serve(w.certificate.Wrap(w.adminAt)) }()
	w.announce()

	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	case err = <-read:
		read <- nil
	}
	w.draining.Store(true)
	w.log.Info("bridge stops", "node", w.id)
	stopReading()
	err = errors.Join(err, <-read)
	// Messages that the brokers have not taken after the engine's longest wait are given up here.
	giveUp := time.AfterFunc(w.limit+time.Second, w.bridge.Close)
	stopClaiming()
	giveUp.Stop()
	stopPruning()
	unfollow()
	closing, cancel := context.WithTimeout(lasting, time.Second)
	defer cancel()
	err = errors.Join(err, w.local.Remove(), w.admin.Shutdown(closing), w.close())
	w.log.Info("bridge has stopped", "node", w.id)
	return err
}

func (w *worker) announce() {
	args := []any{"node", w.id, "admin", process.URLOf(w.certificate.Scheme(), w.adminAt)}
	if w.local != nil {
		args = append(args, "token_file", strings.Join(w.local.Files(), " "))
	}
	w.log.Info("bridge is up", args...)
}

// close ends all that is open.
func (w *worker) close() (err error) {
	err = w.local.Remove()
	if w.bridge != nil {
		w.bridge.Close()
	}
	if w.store != nil {
		err = errors.Join(err, w.store.Close())
	}
	if w.adminAt != nil {
		if failed := w.adminAt.Close(); failed != nil && !errors.Is(failed, net.ErrClosed) {
			err = errors.Join(err, failed)
		}
	}
	w.awake.Stop()
	return err
}
