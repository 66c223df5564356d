package api

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/valyala/fasthttp"

	"chronos/api/tokens"
	"chronos/api/transport"
	"chronos/api/wire"
)

// Authorizer decides by the Authorization header whether a request is allowed. An Authorizer is
// safe for concurrent use and blocks on nothing. *tokens.Set and *tokens.Keeper are Authorizers.
type Authorizer interface {
	// Check decides about a request with the header authorization, nil if the request has no
	// header. A request that is let through must be held to the Prefix of the decision.
	Check(authorization []byte, need tokens.Role, now time.Time) tokens.Decision
}

// neededRole is the role that a request on the public listener needs, as far as the method tells.
func neededRole(method []byte) tokens.Role {
	switch string(method) {
	case http.MethodGet, http.MethodHead:
		return tokens.Read
	}
	return tokens.Write
}

// neededRoleAt is the role that a request needs. Clients may neither read all timers nor have copies
// removed.
func neededRoleAt(method []byte, uri *fasthttp.URI) tokens.Role {
	need := neededRole(method)
	switch to := routeAt(uri); {
	case to == routeReferences, to == routeCollection && need == tokens.Read && asksForReplicas(uri):
		return tokens.Admin
	case to == routeCollection && need == tokens.Read:
		return tokens.List
	}
	return need
}

// unauthorized checks a request. If the request is not allowed, refused is true and p is the
// answer. Otherwise the decision has the name and the prefix of the request's token.
func unauthorized(by Authorizer, authorization []byte, need tokens.Role) (decision tokens.Decision, p wire.Problem, refused bool) {
	if by != nil {
		decision = by.Check(authorization, need, time.Now())
	}
	switch decision.Outcome {
	case tokens.OK:
		return decision, wire.Problem{}, false
	case tokens.Scope:
		return decision, wire.NewProblem(http.StatusForbidden, "token-scope", "this token's role does not allow this; use one with the role "+need.String()), true
	case tokens.Limited:
		p = wire.NewProblem(http.StatusTooManyRequests, "rate-limited", "this token's requests come faster than its rate; send them again later, and fewer at once")
		p.RetryAfter = decision.RetryAfter
		return decision, p, true
	case tokens.Unknown:
		p = wire.NewProblem(http.StatusUnauthorized, "token-unknown", "this token is not known; ask the operator for a valid one")
		return decision, p.With(fasthttp.HeaderWWWAuthenticate, tokens.Challenge), true
	case tokens.Missing:
	}
	p = wire.NewProblem(http.StatusUnauthorized, "token-missing", "the request has no token; send one header Authorization: Bearer <token>")
	return decision, p.With(fasthttp.HeaderWWWAuthenticate, tokens.Challenge), true
}

// openRead is the need of a request to the admin listener that may be open to everyone.
const openRead tokens.Role = 0

// gate decides about requests to the admin listener.
type gate struct {
	authorizer Authorizer // nil lets nobody through
	openReads  bool
	confines   bool         // the handlers hold their answers to the prefix of a request's token
	reveals    bool         // the answers have secrets, so reads are logged, too
	log        *slog.Logger // takes the changes with the names of the tokens
}

// confining is the gate for handlers that hold their answers to the prefix that prefixIn returns.
func (g gate) confining() gate {
	g.confines = true
	return g
}

// revealing is the gate for handlers whose answers have secrets.
func (g gate) revealing() gate {
	g.reveals = true
	return g
}

// lets passes on the requests with a token of at least the role need. A token with a prefix gets only
// to handlers that hold their answers to the prefix.
func (g gate) lets(need tokens.Role, next http.Handler) http.Handler {
	switch {
	case need == openRead && g.openReads:
		return next
	case need == openRead:
		need = tokens.Read
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var authorization []byte
		if given := r.Header.Values(fasthttp.HeaderAuthorization); len(given) == 1 { // several headers count as none
			authorization = []byte(given[0])
		}
		decision, p, refused := unauthorized(g.authorizer, authorization, need)
		if decision.Prefix != "" {
			r = r.WithContext(context.WithValue(r.Context(), prefixKey{}, decision.Prefix))
		}
		switch {
		case refused:
			answerProblem(w, p)
		case decision.Prefix != "" && !g.confines:
			answerProblem(w, aboutAll())
		case isRead(r.Method) && !g.reveals:
			next.ServeHTTP(w, r)
		default:
			g.audited(decision.Name, next, w, r)
		}
	})
}

// authorizeBody is transport.Config's Authorize. authorizeBody protects the room for bodies, so no
// path is an exception. The path is not known yet, so refuseUnauthorized holds the request to the prefix.
func (s *Server) authorizeBody(method, authorization []byte) (prefix string, err error) {
	if s.authorizer == nil {
		return "", nil
	}
	decision, p, refused := unauthorized(s.authorizer, authorization, neededRole(method))
	if refused {
		return "", p
	}
	return decision.Prefix, nil
}

// refuseUnauthorized answers a request that is not allowed, and reports whether the request was
// refused. The description of the interface and /ping are for everyone. A request that
// authorizeBody has let pass is not checked again, since a second check would count the request
// twice. A request that needs more than its method tells is checked again nevertheless.
func (s *Server) refuseUnauthorized(rc *fasthttp.RequestCtx) bool {
	if s.authorizer == nil {
		return false
	}
	switch string(rc.URI().PathOriginal()) {
	case openAPIPath, pingPath:
		return false
	}
	need := neededRoleAt(rc.Method(), rc.URI())
	if prefix, cleared := transport.Cleared(rc.Conn()); cleared && neededRole(rc.Method()).Allows(need) {
		return confine(rc, prefix)
	}
	var authorization []byte
	if given := rc.Request.Header.PeekAll(fasthttp.HeaderAuthorization); len(given) == 1 { // several headers count as none
		authorization = given[0]
	}
	decision, p, refused := unauthorized(s.authorizer, authorization, need)
	if refused {
		transport.Refuse(&rc.Response, p)
		return true
	}
	if need == tokens.Admin && !isRead(string(rc.Method())) {
		noteChange(rc, decision.Name)
	}
	return confine(rc, decision.Prefix)
}
