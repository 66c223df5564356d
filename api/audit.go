package api

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"chronos/api/wire"

	"github.com/valyala/fasthttp"
)

// change is what the log says of a change that an operator asked for.
type change struct {
	method, path, query string
	shard               string // that the body names, "" for none
	token, address      string // who asked: the token's name, and from where
	status              int    // of the answer
}

func (c *change) log(to *slog.Logger) {
	args := []any{"method", c.method, "path", c.path}
	for _, more := range [][2]string{{"query", c.query}, {"shard", c.shard}} {
		if more[1] != "" {
			args = append(args, more[0], more[1])
		}
	}
	to.Info("admin change", append(args, "status", c.status, "token", c.token, "address", c.address)...)
}

// shownQuery is a query with what it may say of a change. Names that mean nothing are left
// out, since a token may be there by mistake, and so is the user of a callback's URL.
func shownQuery(raw string) string {
	given, err := url.ParseQuery(raw)
	if err != nil {
		return ""
	}
	var parts []string
	for _, name := range []string{"all", "callback", "force", "key", "key-prefix", nodeParameter, "reason", "since", "until"} {
		if value := given.Get(name); value != "" {
			parts = append(parts, name+"="+wire.ReplaceUsers(value, ""))
		}
	}
	return strings.Join(parts, " ")
}

// changeKey has the change in a request's context.
type changeKey struct{}

// noteShard tells the log which shard a change is about.
func noteShard(ctx context.Context, name string) {
	if c, is := ctx.Value(changeKey{}).(*change); is {
		c.shard = wire.Printable(name)
	}
}

// audited passes on a change by the owner of a token, and logs it when it is answered.
func (g gate) audited(token string, next http.Handler, w http.ResponseWriter, r *http.Request) {
	c := &change{method: r.Method, path: r.URL.Path, query: shownQuery(r.URL.RawQuery), token: token, address: r.RemoteAddr, status: http.StatusOK}
	defer c.log(g.log)
	next.ServeHTTP(&statusWriter{w, c}, r.WithContext(context.WithValue(r.Context(), changeKey{}, c)))
}

// statusWriter notes the status of the answer to a change.
type statusWriter struct {
	http.ResponseWriter
	change *change
}

// WriteHeader notes the status and sends it.
func (w *statusWriter) WriteHeader(status int) {
	w.change.status = status
	w.ResponseWriter.WriteHeader(status)
}

// noteChange remembers who asks the public listener for a change as an admin.
func noteChange(rc *fasthttp.RequestCtx, token string) { rc.SetUserValue(changeKey{}, token) }

// logChange logs a change on the public listener that noteChange has noted.
func (s *Server) logChange(rc *fasthttp.RequestCtx) {
	token, noted := rc.UserValue(changeKey{}).(string)
	if !noted {
		return
	}
	c := change{
		method: string(rc.Method()), path: string(rc.Path()), query: shownQuery(string(rc.URI().QueryString())),
		token: token, address: rc.RemoteAddr().String(), status: rc.Response.StatusCode(),
	}
	c.log(s.log)
}
