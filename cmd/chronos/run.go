package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"chronos/api"
	"chronos/api/tokens"
	"chronos/api/ui"
	"chronos/cmd/internal/certificate"
	"chronos/cmd/internal/environment"
	"chronos/cmd/internal/localtoken"
	"chronos/cmd/internal/operator"
	"chronos/cmd/internal/process"
	"chronos/redisstore"
	"chronos/redisstore/endpoint"
	"chronos/scheduler"
	"chronos/scheduler/awake"
	"chronos/scheduler/cluster"
	"chronos/scheduler/destinations"
	"chronos/scheduler/settings"
	"chronos/scheduler/timer"
	"chronos/scheduler/webhook"
)

// Bounds of a stop: for requests under way, and for the store's last writes.
const (
	drainTime = 5 * time.Second
	closeTime = 10 * time.Second
)

// run is a node's whole life: from reading the environment until ctx has ended and all
// work under way is over.
func run(ctx context.Context, environ []string, logTo io.Writer) error {
	cfg, err := environment.LoadNode(environ)
	if err != nil {
		return fmt.Errorf("the environment is wrong; `chronos config variables` lists the variables:\n%w", err)
	}
	n, err := newNode(ctx, cfg, localtoken.RuntimeDir(environ), process.NewLog(logTo, cfg.LogLevel, cfg.LogFormat))
	if err != nil {
		return err
	}
	return n.run(ctx)
}

// node is one chronos process. The node owns all its fields and ends them in run.
type node struct {
	id          string
	log         *slog.Logger
	awake       *awake.Clock
	backend     backend // nil if CHRONOS_REDIS names the shards
	store       *redisstore.Store
	client      *webhook.Client
	engine      *scheduler.Scheduler
	observer    *cluster.Observer
	public      *api.Server
	admin       *api.Admin
	dashboard   *ui.UI               // nil if there is none
	tokens      *tokens.Keeper       // nil without a file of tokens
	limits      *destinations.Keeper // nil without a file of destinations
	local       *localtoken.Token    // nil with a file of tokens
	certificate *certificate.Keeper  // nil for listeners without TLS
	keepDead    time.Duration        // how long dead letters are kept
	listener    net.Listener         // of public
	adminAt     net.Listener
	draining    atomic.Bool
}

// newNode puts a node together and opens its listeners. A newNode that fails closes again
// all that was opened. A token that the node makes is also in runtimeDir.
func newNode(ctx context.Context, cfg environment.Node, runtimeDir localtoken.Dir, log *slog.Logger) (_ *node, err error) {
	n := &node{id: uuid.NewString(), log: log, awake: awake.Start(), keepDead: cfg.DeadRetention}
	log.Info("node starts", "node", n.id)
	defer func() {
		if err != nil {
			err = errors.Join(err, n.close())
		}
	}()
	shared, err := openFiles(cfg.Slots, log)
	if err != nil {
		return nil, err
	}
	cfg.Slots = shared.slots
	if cfg.TokensFile != "" {
		if n.tokens, err = tokens.Open(tokens.KeeperConfig{Path: cfg.TokensFile, Log: log}); err != nil {
			return nil, fmt.Errorf("CHRONOS_TOKENS_FILE: %w", err)
		}
	}
	if n.certificate, err = certificate.Open(cfg.Files(), log); err != nil {
		return nil, err
	}
	if err := n.listen(ctx, cfg); err != nil {
		return nil, err
	}
	shards, err := n.shards(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := n.makeToken(cfg, runtimeDir); err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(process.Collectors()...)
	own, others := redisstore.BySite(shards, cfg.Site)
	n.store, err = redisstore.Open(ctx, redisstore.Options{Shards: own, Site: cfg.Site, Others: others, Node: n.id, Lane: "http", Log: log, Awake: n.awake, Deliveries: cfg.Deliveries, Registerer: registry})
	if err != nil {
		return nil, err
	}
	if err := n.store.Join(ctx); err != nil {
		return nil, err
	}
	if n.backend == nil { // a node with its own Redis has only that Redis on purpose
		operator.WarnOfFewCopies(log, n.store, timer.DefaultReplicationFactor, "give timers the replication-factor 1")
	}
	n.store.LearnAddresses(ctx) // before the first callback
	if n.client, err = newClient(cfg, shared.idle, n.reserved()); err != nil {
		return nil, err
	}
	engine := engineConfig(cfg, n.id, log, registry)
	engine.Awake, engine.Destinations = n.awake, destinations.NewBook(webhook.ParseDestination)
	engine.Identity = n.identity()
	if cfg.DestinationsFile != "" {
		if n.limits, err = destinations.Open(cfg.DestinationsFile, engine.Destinations, log); err != nil {
			return nil, fmt.Errorf("CHRONOS_DESTINATIONS_FILE: %w", err)
		}
	}
	if n.engine, err = scheduler.New(engine, n.store, n.client); err != nil {
		return nil, err
	}
	n.observer = n.engine.Observe(n.store)
	registry.MustRegister(n.observer)
	n.serve(cfg, shared, registry)
	return n, nil
}

func (n *node) listen(ctx context.Context, cfg environment.Node) (err error) {
	var lc net.ListenConfig
	if n.listener, err = lc.Listen(ctx, "tcp", cfg.Listen); err != nil {
		return fmt.Errorf("listen for timers; set CHRONOS_LISTEN to a free address: %w", err)
	}
	if n.adminAt, err = lc.Listen(ctx, "tcp", cfg.AdminListen); err != nil {
		return fmt.Errorf("listen for health and metrics; set CHRONOS_ADMIN_LISTEN to a free address: %w", err)
	}
	return nil
}

// shards are the shards that CHRONOS_REDIS names, or a single shard that the node runs itself.
func (n *node) shards(ctx context.Context, cfg environment.Node) (_ []endpoint.Config, err error) {
	switch cfg.Redis {
	case "":
		n.backend, err = startEmbedded(ctx, cfg.DataDir, n.log)
	case "memory":
		n.log.Warn("timers are kept in memory and end with this node; unset CHRONOS_REDIS to keep them")
		n.backend, err = startMemory()
	default:
		shards, err := endpoint.Parse(cfg.Redis)
		if err != nil {
			return nil, fmt.Errorf("CHRONOS_REDIS: %w", err)
		}
		return shards, nil
	}
	if err != nil {
		n.backend = nil
		return nil, err
	}
	return []endpoint.Config{{Name: "main", URL: n.backend.URL()}}, nil
}

// reserved gives the addresses that no callback connects to: a timer must not reach
// the listeners that are meant for operators and nodes.
func (n *node) reserved() func() []webhook.Reserved {
	admin := webhook.Reserved{Whose: "admin listener of this node"}
	if at, ok := n.adminAt.Addr().(*net.TCPAddr); ok {
		admin.Addresses = []netip.AddrPort{at.AddrPort()}
	}
	return func() []webhook.Reserved {
		return []webhook.Reserved{admin, {Whose: "Redis of this cluster", Addresses: n.store.Addresses(), AnyLocal: true}}
	}
}

// makeToken makes the token of the admin listener, unless the node has a file of tokens.
// A node with a data directory writes the token into the data directory, too.
func (n *node) makeToken(cfg environment.Node, runtimeDir localtoken.Dir) (err error) {
	if n.tokens != nil {
		return nil
	}
	var dirs []localtoken.Dir
	if cfg.Redis == "" {
		dirs = append(dirs, localtoken.DataDir(cfg.DataDir))
	}
	n.local, err = localtoken.Make(n.adminAt.Addr(), append(dirs, runtimeDir)...)
	return err
}

func newClient(cfg environment.Node, idle int, reserved func() []webhook.Reserved) (*webhook.Client, error) {
	guard, err := webhook.ParseGuard(cfg.CallbackAllow, cfg.CallbackDeny)
	if err != nil {
		return nil, err
	}
	secrets, err := webhook.ParseSecrets(cfg.WebhookSecrets)
	if err != nil {
		return nil, err
	}
	authorities, err := webhook.LoadAuthorities(cfg.CallbackCAFile)
	if err != nil {
		return nil, err
	}
	trust := &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12}
	return webhook.New(webhook.Config{Guard: guard, Reserved: reserved, Secrets: secrets, TLS: trust, MaxIdle: idle}), nil
}

func engineConfig(cfg environment.Node, id string, log *slog.Logger, registry prometheus.Registerer) settings.Config {
	engine := settings.Default(id, log)
	engine.PollInterval, engine.Hold = cfg.PollInterval, cfg.Hold
	engine.Attempts, engine.CatchUp, engine.Slots, engine.MinCopies = cfg.Attempts, cfg.CatchUp, cfg.Slots, cfg.MinCopies
	engine.IdempotencyLife, engine.SweepRate, engine.AwayLimit = cfg.IdempotencyLife, cfg.SweepRate, cfg.AwayLimit
	engine.Skew.Max, engine.SitePatience = cfg.ReplicaSkew, cfg.SitePatience
	engine.Deliveries = cfg.Deliveries > 0
	engine.PreciseSleep = true
	engine.Registerer = registry
	return engine
}

func (n *node) ready() error {
	if n.draining.Load() {
		return errors.New("the node is stopping")
	}
	return n.engine.Ready()
}

// run serves and fires until ctx ends or a listener fails. Then the node stops in this
// order: not ready, requests drained, no more claims, the wheel released, callbacks ended
// and settled, the store closed.
func (n *node) run(ctx context.Context) error {
	claiming, stopClaiming := context.WithCancel(context.WithoutCancel(ctx))
	defer stopClaiming()
	fired := make(chan struct{})
	failed := make(chan error, 2)
	go func() { defer close(fired); n.engine.Run(claiming) }()
	defer n.keepTokens(ctx)()
	if n.limits != nil {
		defer process.Beside(ctx, n.limits.Run)()
	}
	unfollow := process.Beside(ctx, n.store.Follow)
	forgetAddresses := process.Beside(ctx, n.store.KeepAddresses)
	stopObserving := process.Beside(ctx, n.observer.Run)
	stopPruning := process.Beside(ctx, func(ctx context.Context) { n.store.PruneLetters(ctx, n.keepDead) })
	defer process.Beside(ctx, n.certificate.Run)()
	go func() { failed <- n.public.Serve(n.certificate.Wrap(n.listener)) }()
	go func() { failed <- n.admin.Serve(n.certificate.Wrap(n.adminAt)) }()
	n.announce()

	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	n.draining.Store(true)
	n.log.Info("node stops", "node", n.id)
	draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	if shut := n.public.Shutdown(draining); shut != nil {
		n.log.Warn("some requests were cut", "err", shut)
	}
	stopClaiming()
	<-fired
	stopPruning()
	forgetAddresses()
	stopObserving()
	unfollow()
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	err = errors.Join(err, n.local.Remove(), n.admin.Shutdown(closing), n.close())
	n.log.Info("node has stopped", "node", n.id)
	return err
}

// keepTokens follows the changes of CHRONOS_TOKENS_FILE until stop is called. Without a file
// of tokens, keepTokens restores the files of the node's own token.
func (n *node) keepTokens(ctx context.Context) (stop func()) {
	if n.tokens == nil {
		return process.Beside(ctx, func(ctx context.Context) { n.local.Keep(ctx, n.log) })
	}
	return process.Beside(ctx, n.tokens.Run)
}

func (n *node) announce() {
	public, admin := process.URLOf(n.certificate.Scheme(), n.listener), process.URLOf(n.certificate.Scheme(), n.adminAt)
	args := []any{"node", n.id, "timers", public, "admin", admin}
	if n.local != nil {
		args = append(args, "token_file", strings.Join(n.local.Files(), " "))
	}
	if n.backend != nil {
		args = append(args, "look_inside", n.backend.CLI())
	}
	if n.dashboard != nil {
		page := "/ui/"
		if n.local != nil {
			page = n.dashboard.LoginLink(n.local.Reveal()) // logs in once, within 15 minutes
		}
		args = append(args, "dashboard", admin+page)
	}
	n.log.Info("node is up", args...)
}

// close ends all that is open: first the users, and then the things that they use.
func (n *node) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	errs := []error{n.local.Remove()}
	if n.client != nil {
		n.client.Close()
	}
	if n.store != nil {
		errs = append(errs, n.store.Close())
	}
	if n.backend != nil {
		errs = append(errs, n.backend.Stop(ctx))
	}
	for _, l := range []net.Listener{n.listener, n.adminAt} {
		if l == nil {
			continue
		}
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	n.awake.Stop()
	return errors.Join(errs...)
}
