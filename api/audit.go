package api

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"chronos/api/wire"
	"chronos/scheduler/destinations"
	"chronos/scheduler/listing"

	"github.com/valyala/fasthttp"
)

// change is a change that an operator asked for, as the log shows the change.
type change struct {
	method, path, query string
	shard, site         string // that the body names, "" for none
	destination, until  string // that is paused or resumed, and the end of the pause; "" for none
	counts              []any  // of a change to many timers: names and numbers
	by, address         string // the token's name, and the operator's address
	status              int    // of the answer
}

func (c *change) log(to *slog.Logger) {
	args := []any{"method", c.method, "path", c.path}
	for _, more := range [][2]string{{"query", c.query}, {"shard", c.shard}, {"site", c.site}, {"destination", c.destination}, {"until", c.until}} {
		if more[1] != "" {
			args = append(args, more[0], more[1])
		}
	}
	args = append(args, c.counts...)
	to.Info("admin change", append(args, "status", c.status, "by", cmp.Or(c.by, "-"), "address", c.address)...)
}

// shownQuery returns the parts of a query that the log may show. Unknown names are left out, since
// a token may be there by mistake. The user in a callback's URL is left out, too.
func shownQuery(raw string) string {
	given, err := url.ParseQuery(strings.ReplaceAll(raw, ";", "&"))
	if err != nil {
		return ""
	}
	var parts []string
	for _, name := range []string{
		allParameter, byParameter, "callback", destinationParameter, dryRunParameter, dueAfterParameter, dueBeforeParameter, "force", keyParameter, keyPrefixParameter,
		nodeParameter, "reason", secretsParameter, "since", stateParameter, tagParameter, textParameter, "until",
	} {
		if value := given.Get(name); value != "" {
			parts = append(parts, name+"="+wire.ReplaceUsers(value, ""))
		}
	}
	return strings.Join(parts, " ")
}

// changeKey has the change in a request's context.
type changeKey struct{}

// noteShard notes the changed shard for the log.
func noteShard(ctx context.Context, name string) {
	if c, is := ctx.Value(changeKey{}).(*change); is {
		c.shard = wire.Printable(name)
	}
}

// noteSite notes the named site for the log.
func noteSite(ctx context.Context, name string) {
	if c, is := ctx.Value(changeKey{}).(*change); is {
		c.site = wire.Printable(name)
	}
}

// notePausing notes the destination that is paused or resumed for the log.
func notePausing(ctx context.Context, p *destinations.Pausing) {
	c, is := ctx.Value(changeKey{}).(*change)
	if !is {
		return
	}
	c.destination = wire.Printable(p.Destination)
	if !p.Until.IsZero() {
		c.until = p.Until.Format(time.RFC3339)
	}
}

// noteBulk notes how many timers were changed for the log.
func noteBulk(ctx context.Context, done *listing.Done) {
	if c, is := ctx.Value(changeKey{}).(*change); is {
		c.counts = []any{"done", done.Done, "refused", len(done.Refused)}
	}
}

// audited passes on a change by the owner of a token, and logs the change after the answer.
func (g gate) audited(token string, next http.Handler, w http.ResponseWriter, r *http.Request) {
	c := &change{method: r.Method, path: r.URL.Path, query: shownQuery(r.URL.RawQuery), by: token, address: r.RemoteAddr, status: http.StatusOK}
	defer c.log(g.log)
	next.ServeHTTP(&statusWriter{w, c}, r.WithContext(context.WithValue(r.Context(), changeKey{}, c)))
}

// statusWriter notes the status of the answer to a change.
type statusWriter struct {
	http.ResponseWriter
	change *change
}

// WriteHeader notes the status and sends the status.
func (w *statusWriter) WriteHeader(status int) {
	w.change.status = status
	w.ResponseWriter.WriteHeader(status)
}

// noteChange remembers the token of an admin who asks the public listener for a change.
func noteChange(rc *fasthttp.RequestCtx, token string) { rc.SetUserValue(changeKey{}, token) }

// logChange logs a change on the public listener that noteChange has noted.
func (s *Server) logChange(rc *fasthttp.RequestCtx) {
	token, noted := rc.UserValue(changeKey{}).(string)
	if !noted {
		return
	}
	c := change{
		method: string(rc.Method()), path: string(rc.Path()), query: shownQuery(string(rc.URI().QueryString())),
		by: token, address: rc.RemoteAddr().String(), status: rc.Response.StatusCode(),
	}
	c.log(s.log)
}
