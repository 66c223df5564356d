package api

import (
	"mime"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"chronos/api/transport"
	"chronos/api/wire"
)

// outsiders refuses requests to the admin listener that no operator sent on purpose. Callbacks send
// such requests, and so do pages in an operator's browser. A page's host name may even lead to the
// listener, so that the browser takes the page and the listener for the same site.
type outsiders struct {
	hosts  []string // names by which the listener is known, in lower case
	origin *http.CrossOriginProtection
	next   http.Handler
}

func withoutOutsiders(hosts []string, next http.Handler) http.Handler {
	known := []string{"localhost"}
	for _, host := range hosts {
		known = append(known, nameOf(host))
	}
	return &outsiders{known, http.NewCrossOriginProtection(), next}
}

// ServeHTTP refuses the request, or passes it on.
func (o *outsiders) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case isFromCallback(r):
		answerProblem(w, transport.FromCallback())
	case !o.knows(r.Host):
		answerProblem(w, wire.NewProblem(http.StatusMisdirectedRequest, "host-unknown",
			"this listener answers under addresses and localhost; add the name in the header Host to CHRONOS_ADMIN_HOSTS if it is one of this machine"))
	case o.origin.Check(r) != nil:
		answerProblem(w, wire.NewProblem(http.StatusForbidden, "cross-origin", "a page of another site asks for a change; send the request without a browser"))
	case r.ContentLength != 0 && !isRead(r.Method) && !isJSON(r.Header) && !isDashboardForm(r):
		answerProblem(w, wire.NewProblem(http.StatusUnsupportedMediaType, "content-type", "a request for a change has a body that is not declared as JSON; send one header Content-Type: application/json"))
	default:
		o.next.ServeHTTP(w, r)
	}
}

func isFromCallback(r *http.Request) bool {
	for name := range r.Header {
		if transport.OfCallback([]byte(name)) {
			return true
		}
	}
	return false
}

// knows reports whether a Host leads here. An address always does, since no name service can
// redirect an address.
func (o *outsiders) knows(host string) bool {
	name := nameOf(host)
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return slices.Contains(o.hosts, name)
}

// nameOf is a host in lower case, without port, brackets and a final dot.
func nameOf(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	} else if bare, open := strings.CutPrefix(host, "["); open {
		host = strings.TrimSuffix(bare, "]")
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

func isRead(method string) bool { return method == http.MethodGet || method == http.MethodHead }

func isJSON(header http.Header) bool { return isOfType(header, "application/json") }

// dashboardPath is where the dashboard is.
const dashboardPath = "/ui/"

// isDashboardForm reports whether a request is a form of the dashboard. The forms of the dashboard need
// the cookie of a login, which browsers send with no request of another site.
func isDashboardForm(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, dashboardPath) && isOfType(r.Header, "application/x-www-form-urlencoded")
}

func isOfType(header http.Header, want string) bool {
	given := header.Values("Content-Type")
	if len(given) != 1 {
		return false
	}
	kind, _, err := mime.ParseMediaType(given[0])
	return err == nil && kind == want
}
