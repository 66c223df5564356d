package ui

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"golang.org/x/time/rate"

	"chronos/api/tokens"
)

// Config is what a UI needs. All fields but Log are required.
type Config struct {
	Cluster      Cluster
	History      History
	Lister       Lister
	Timers       Timers
	Letters      Letters
	Destinations Destinations
	Topology     Topology
	// Authorizer decides about the token of a session, at every request.
	Authorizer Authorizer
	// Log takes the changes that operators make, and errors; nil for none.
	Log *slog.Logger
}

// UI answers the requests under /ui/. A UI is safe for concurrent use. The caller refuses requests for
// other hosts, requests of callbacks and requests of other sites.
type UI struct {
	Config
	pages    *pages
	sessions *sessions
	tries    *rate.Limiter // of logging in
	shows    *lane         // for what only shows
	changes  *lane         // for what changes
	mux      *http.ServeMux
}

// Bounds of the pages.
const (
	maxPages     = 4               // made at once
	maxWaiting   = 16              // requests that wait for their turn
	turnPatience = time.Second / 2 // of a request that waits for its turn
	pagePatience = time.Second
	listPatience = 2 * time.Second // a listing ends by itself after a second
	maxPage      = 256 << 10       // bytes
	maxRows      = 100
	maxForm      = 64 << 10 // bytes

	triesPerSecond = 5
	triesAtOnce    = 10
)

// How long a change may take.
const (
	timerPatience    = 8 * time.Second
	pausePatience    = 5 * time.Second
	topologyPatience = 8 * time.Second
	bulkPatience     = 15 * time.Second
)

// New makes a UI without sessions.
func New(cfg Config) *UI {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	u := &UI{
		Config: cfg, pages: newPages(), sessions: newSessions(), mux: http.NewServeMux(),
		tries: rate.NewLimiter(triesPerSecond, triesAtOnce), shows: newLane(maxPages), changes: newLane(maxPages),
	}
	u.routeEntrance()
	u.routePages()
	u.routeChanges()
	return u
}

// ServeHTTP answers a request for a path under /ui/.
func (u *UI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	harden(w.Header())
	u.mux.ServeHTTP(w, r)
}

// harden sets the headers that every answer has.
func harden(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// routeEntrance has what needs no session.
func (u *UI) routeEntrance() {
	u.mux.HandleFunc("GET /ui/login", u.showLogin)
	u.mux.HandleFunc("POST /ui/login", u.login)
	u.mux.HandleFunc("POST /ui/logout", u.logout)
	u.mux.HandleFunc("GET /ui/static/{name}", u.pages.serveAsset)
	u.mux.HandleFunc("GET /ui", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/ui/", http.StatusSeeOther) })
	u.mux.HandleFunc("/ui/", u.refuseUnknown)
}

// routePages has what shows something and changes nothing.
func (u *UI) routePages() {
	type show struct {
		need tokens.Role
		do   func(*visit) (answer, error)
	}
	for pattern, p := range map[string]show{
		"GET /ui/timers":            {tokens.List, u.timers},
		"POST /ui/timers/matching":  {tokens.Admin, u.matchTimers},
		"GET /ui/dead":              {tokens.List, u.letters},
		"POST /ui/dead/matching":    {tokens.Admin, u.matchLetters},
		"POST /ui/many/{run}/count": {tokens.Admin, u.countRun},
	} {
		u.mux.HandleFunc(pattern, u.handle(u.shows, p.need, listPatience, p.do))
	}
	for pattern, p := range map[string]show{
		"GET /ui/{$}":                     {tokens.Read, u.overview},
		"GET /ui/timers/{id}":             {tokens.List, u.timer},
		"GET /ui/timers/{id}/{action}":    {tokens.Write | tokens.List, u.askAboutTimer},
		"POST /ui/timers/selected":        {tokens.Admin, u.selectTimers},
		"GET /ui/dead/{id}":               {tokens.List, u.letter},
		"GET /ui/dead/{id}/{action}":      {tokens.Admin, u.askAboutLetter},
		"GET /ui/many/{run}":              {tokens.Admin, u.run},
		"GET /ui/destinations":            {tokens.Read, u.destinations},
		"GET /ui/destinations/{action}":   {tokens.Write, u.askAboutDestination},
		"GET /ui/cluster":                 {tokens.Read, u.cluster},
		"GET /ui/cluster/add":             {tokens.Admin, u.askAboutAdding},
		"GET /ui/cluster/{name}/{action}": {tokens.Admin, u.askAboutShard},
		"GET /ui/done/{outcome}":          {tokens.Read, u.outcome},
		"GET /ui/help":                    {tokens.Read, u.help},
	} {
		u.mux.HandleFunc(pattern, u.handle(u.shows, p.need, pagePatience, p.do))
	}
}

// routeChanges has what changes something. Each change is logged.
func (u *UI) routeChanges() {
	for pattern, c := range map[string]struct {
		need     tokens.Role
		patience time.Duration
		do       func(*visit) (answer, error)
	}{
		"POST /ui/timers/{id}/{action}":    {tokens.Write | tokens.List, timerPatience, u.changeTimer},
		"POST /ui/many/{run}/do":           {tokens.Admin, bulkPatience, u.stepRun},
		"POST /ui/dead/{id}/{action}":      {tokens.Admin, timerPatience, u.changeLetter},
		"POST /ui/destinations/{action}":   {tokens.Write, pausePatience, u.changeDestination},
		"POST /ui/cluster/add":             {tokens.Admin, topologyPatience, u.addShard},
		"POST /ui/cluster/{name}/{action}": {tokens.Admin, topologyPatience, u.changeShard},
	} {
		u.mux.HandleFunc(pattern, u.handle(u.changes, c.need, c.patience, u.logged(c.do)))
	}
}

// logged logs a change after the attempt, with the name of the operator's token.
func (u *UI) logged(do func(*visit) (answer, error)) func(*visit) (answer, error) {
	return func(v *visit) (answer, error) {
		a, err := do(v)
		status := http.StatusOK
		if err != nil {
			status = problemOf(err).Status
		}
		args := append([]any{"method", v.r.Method, "path", v.r.URL.Path}, v.noted...)
		u.Log.Info("admin change", append(args, "status", status, "by", v.token, "address", v.r.RemoteAddr)...)
		return a, err
	}
}

// lane bounds the requests that are answered at once, and the requests that wait for their turn.
type lane struct{ turns, waiting chan struct{} }

func newLane(turns int) *lane {
	return &lane{make(chan struct{}, turns), make(chan struct{}, maxWaiting)}
}

// enter waits for a turn, and reports whether the request has a turn, which leave ends.
func (l *lane) enter(ctx context.Context) bool {
	select {
	case l.turns <- struct{}{}:
		return true
	default:
	}
	select {
	case l.waiting <- struct{}{}:
		defer func() { <-l.waiting }()
	default:
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, turnPatience)
	defer cancel()
	select {
	case l.turns <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (l *lane) leave() { <-l.turns }
