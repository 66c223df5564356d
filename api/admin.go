package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"chronos/api/tokens"
	"chronos/api/wire"
)

// AdminConfig is what an Admin needs.
type AdminConfig struct {
	// Ready returns nil if the node should get requests. Otherwise the error says why not, in a few
	// words that may be shown. Ready must be safe for concurrent use and must not block. A nil
	// Ready means always ready.
	Ready func() error
	// Authorizer decides about requests for changes, and about reading timers, dead letters and
	// profiles. A nil Authorizer lets nobody through. Health and the description are for everyone.
	Authorizer Authorizer
	// OpenReads lets everyone read the metrics and the topology. Otherwise reading the metrics and
	// the topology needs a token of the role read.
	OpenReads bool
	// Hosts are names under which the listener answers, on any port. The listener also answers
	// under addresses and localhost.
	Hosts []string
	// Cluster is shown under /status and /load; nil for none.
	Cluster Cluster
	// Topology is shown and changed under /topology; nil for none.
	Topology Topology
	// Sites are changed under /topology/site and /topology/sites; nil for a process that knows one site alone.
	Sites Sites
	// Letters are the dead letters under /dead; nil for none.
	Letters Letters
	// Groups are the groups of dead letters under /dead/groups; nil for none.
	Groups LetterGroups
	// Interventions are what operators see of single timers, and do to single timers; nil for none.
	Interventions Interventions
	// Destinations are shown, paused and resumed under /destinations; nil for none.
	Destinations Destinations
	// Deliveries is the log of deliveries under /deliveries; nil for no log.
	Deliveries Deliveries
	// Lister finds timers among all timers under /timers; nil for no listing.
	Lister Lister
	// Changer changes many timers under /timers/bulk; nil for none.
	Changer Changer
	// Resync answers requests for resynchronisation, as Server.Resynchronisation does; nil for
	// none.
	Resync http.Handler
	// Dashboard answers under /ui/, and decides by itself about its requests; nil for none.
	Dashboard http.Handler
	// Gatherer has the metrics; nil for no /metrics.
	Gatherer prometheus.Gatherer
	// Log takes the server's errors and the operators' changes; nil for none.
	Log *slog.Logger
}

// Admin answers the admin listener, as AdminOpenAPI describes, with the
// dashboard under /ui/. Under /debug/pprof/ are the profiles of
// net/http/pprof, at most 30 s long. Admin is safe for concurrent use.
type Admin struct{ server *http.Server }

// NewAdmin makes a server that serves nothing yet.
func NewAdmin(cfg AdminConfig) *Admin {
	log := slog.DiscardHandler
	if cfg.Log != nil {
		log = cfg.Log.Handler()
	}
	mux := http.NewServeMux()
	by := gate{authorizer: cfg.Authorizer, openReads: cfg.OpenReads, log: slog.New(log)}
	serveHealth(mux, cfg.Ready)
	mux.HandleFunc("GET "+openAPIPath, serveDescription)
	if cfg.Cluster != nil {
		serveCluster(mux, by, cfg.Cluster)
	}
	if cfg.Topology != nil {
		serveTopology(mux, by, cfg.Topology)
	}
	if cfg.Sites != nil {
		serveSites(mux, by, cfg.Sites)
	}
	if cfg.Letters != nil {
		serveLetters(mux, by, cfg.Letters)
	}
	if cfg.Groups != nil {
		serveGroups(mux, by, cfg.Groups)
	}
	if cfg.Interventions != nil {
		serveInterventions(mux, by, cfg.Interventions)
	}
	if cfg.Destinations != nil {
		serveDestinations(mux, by, cfg.Destinations)
	}
	serveDeliveries(mux, by, cfg.Deliveries)
	if cfg.Changer != nil {
		serveBulk(mux, by, cfg.Changer)
	}
	serveCollection(mux, by, cfg.Resync, cfg.Lister)
	serveDashboard(mux, cfg.Dashboard)
	if cfg.Gatherer != nil {
		mux.Handle("GET /metrics", by.lets(openRead, promhttp.HandlerFor(cfg.Gatherer, promhttp.HandlerOpts{
			ErrorLog:            slog.NewLogLogger(log, slog.LevelError),
			MaxRequestsInFlight: 4,
			Timeout:             10 * time.Second,
		})))
	}
	for path, profile := range map[string]http.HandlerFunc{
		"": pprof.Index, "profile": pprof.Profile, "trace": pprof.Trace, "cmdline": http.NotFound, "symbol": pprof.Symbol,
	} {
		mux.Handle("GET /debug/pprof/"+path, by.lets(tokens.Admin, profile))
	}
	return &Admin{&http.Server{
		Handler:           withoutOutsiders(cfg.Hosts, explained(mux)),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       60 * time.Second,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log, slog.LevelWarn),
	}}
}

// serveDashboard serves the dashboard, and leads to the dashboard from the root.
func serveDashboard(mux *http.ServeMux, dashboard http.Handler) {
	if dashboard == nil {
		return
	}
	mux.Handle(dashboardPath, dashboard)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", dashboardPath)
		w.WriteHeader(http.StatusSeeOther)
	})
}

func serveHealth(mux *http.ServeMux, ready func() error) {
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		answerLine(w, http.StatusOK, "alive")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if ready != nil {
			if err := ready(); err != nil {
				answerLine(w, http.StatusServiceUnavailable, wire.Printable(err.Error()))
				return
			}
		}
		answerLine(w, http.StatusOK, "ready")
	})
}

func answerLine(w http.ResponseWriter, status int, line string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, line+"\n") // an error means that the client has disconnected
}

// explained passes on the requests that mux has a handler for, and explains the refusal of the rest.
func explained(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mux.Handler(r); pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		var allowed []string
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			other := *r
			other.Method = method
			if _, pattern := mux.Handler(&other); pattern != "" {
				allowed = append(allowed, method)
			}
		}
		if len(allowed) == 0 {
			answerProblem(w, wire.NewProblem(http.StatusNotFound, "path-unknown", "there is nothing at this path of the admin listener; /openapi.yaml describes the paths"))
			return
		}
		p := wire.NewProblem(http.StatusMethodNotAllowed, "method-not-allowed", "this path does not take this method; the Allow header lists those it takes")
		answerProblem(w, p.With("Allow", strings.Join(allowed, ", ")))
	})
}

// answerProblem refuses a request.
func answerProblem(w http.ResponseWriter, p wire.Problem) {
	p.EachHeader(w.Header().Set)
	w.WriteHeader(p.Status)
	_, _ = w.Write(p.Body()) // an error means that the client has disconnected
}

// Serve accepts connections from ln and answers the connections' requests. Serve closes ln. Serve
// returns nil after Shutdown, and an error if ln fails for another reason.
func (a *Admin) Serve(ln net.Listener) error {
	if err := a.server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve admin: %w", err)
	}
	return nil
}

// Shutdown stops accepting, answers the requests that have arrived, and returns when all
// connections are closed. When ctx ends earlier, Shutdown closes all connections and returns ctx's
// error.
func (a *Admin) Shutdown(ctx context.Context) error {
	if err := a.server.Shutdown(ctx); err != nil {
		return fmt.Errorf("shut down admin: %w", errors.Join(err, a.server.Close()))
	}
	return nil
}
