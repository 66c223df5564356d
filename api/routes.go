package api

import (
	"bytes"
	"net/http"
	"net/url"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

const (
	collectionPath = "/timers"
	itemPrefix     = "/timers/"
	batchPath      = itemPrefix + batchID
	referencesPath = itemPrefix + referencesID
	statisticsPath = "/statistics"
	deliveriesPath = "/deliveries" // of the admin listener
	openAPIPath    = "/openapi.yaml"
	pingPath       = "/ping"
)

// deliveriesSuffix follows the id of a timer.
const deliveriesSuffix = "/deliveries"

// Keys that no timer has.
const (
	batchID      = "batch"
	referencesID = "references"
)

func (s *Server) routes() {
	s.app.Post(collectionPath, s.create)
	s.app.Get(collectionPath, s.ofTokens(s.collection)) // and HEAD
	s.app.Delete(referencesPath, s.ofTokens(s.dropReferences))
	s.app.Post(batchPath, s.createBatch)
	s.app.Get(itemPrefix+":id", s.lookup) // and HEAD
	s.app.Get(itemPrefix+":id"+deliveriesSuffix, s.timerDeliveries)
	s.app.Put(itemPrefix+":id", s.replace)
	s.app.Patch(itemPrefix+":id", s.patch)
	s.app.Delete(itemPrefix+":id", s.remove)
	s.app.Get(statisticsPath, s.statistics)
	s.app.Get(openAPIPath, describe())
	s.app.Get(pingPath, ping)
}

// route is the part of the interface that a path leads to.
type route int

const (
	routeOther route = iota
	routeCollection
	routeBatch
	routeReferences
	routeItem
	routeDeliveries
	routeStatistics
	routeDescription
	routePing
	routes
)

func (r route) String() string {
	switch r {
	case routeCollection:
		return collectionPath
	case routeBatch:
		return batchPath
	case routeReferences:
		return referencesPath
	case routeItem:
		return itemPrefix + "{id}"
	case routeDeliveries:
		return itemPrefix + "{id}" + deliveriesSuffix
	case routeStatistics:
		return statisticsPath
	case routeDescription:
		return openAPIPath
	case routePing:
		return pingPath
	default:
		return "other"
	}
}

func routeOf(path []byte) route {
	switch string(path) {
	case collectionPath:
		return routeCollection
	case batchPath:
		return routeBatch
	case referencesPath:
		return routeReferences
	case statisticsPath:
		return routeStatistics
	case openAPIPath:
		return routeDescription
	case pingPath:
		return routePing
	}
	id, ok := bytes.CutPrefix(path, []byte(itemPrefix))
	of, log := bytes.CutSuffix(id, []byte(deliveriesSuffix))
	if ok && log && len(of) > 0 && bytes.IndexByte(of, '/') < 0 && string(of) != batchID && string(of) != referencesID {
		return routeDeliveries
	}
	if ok && len(id) > 0 && bytes.IndexByte(id, '/') < 0 {
		return routeItem
	}
	return routeOther
}

// routeAt is the route that a path leads to. Fiber undoes escapes and leaves the rest of the path
// unchanged, and routeAt does the same; uri.Path would take /a/../b for /b. An escaped slash, which
// Fiber takes for a slash, leads nowhere.
func routeAt(uri *fasthttp.URI) route {
	sent := uri.PathOriginal()
	switch {
	case bytes.IndexByte(sent, '%') < 0:
		return routeOf(sent)
	case hasEscapedSlash(sent):
		return routeOther
	}
	return routeOf(fasthttp.AppendUnquotedArg(nil, sent))
}

func hasEscapedSlash(path []byte) bool {
	at := bytes.IndexByte(path, '%')
	return at >= 0 && (bytes.Contains(path[at:], []byte("%2F")) || bytes.Contains(path[at:], []byte("%2f")))
}

// allowed is the Allow header of a route, "" if the route leads nowhere.
func (r route) allowed() string {
	switch r {
	case routeCollection:
		return "GET, HEAD, POST"
	case routeBatch:
		return "POST"
	case routeReferences:
		return "DELETE"
	case routeItem:
		return "GET, HEAD, PUT, PATCH, DELETE"
	case routeDeliveries, routeStatistics, routeDescription, routePing:
		return "GET, HEAD"
	default:
		return ""
	}
}

func knownMethod(method []byte) bool {
	switch string(method) {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete,
		http.MethodConnect, http.MethodOptions, http.MethodTrace, http.MethodPatch:
		return true
	}
	return false
}

// ping says that the process answers, as monitoring of Metaswitch's Chronos expects.
func ping(c *fiber.Ctx) error { return c.SendString("OK") }

// reference is the URI of a request to the admin listener, as normalize rewrites URIs of the public
// listener.
func reference(u *url.URL) string {
	var uri fasthttp.URI
	uri.Update(u.RequestURI())
	normalize(&uri)
	return string(uri.RequestURI())
}

// normalize rewrites a URI as Metaswitch's Chronos reads the URI: /timers/ becomes /timers, and a
// semicolon between parameters becomes an ampersand. Routing and authorization see the result.
func normalize(uri *fasthttp.URI) {
	if string(uri.PathOriginal()) == itemPrefix {
		uri.SetPath(collectionPath)
	}
	if query := uri.QueryString(); bytes.IndexByte(query, ';') >= 0 {
		uri.SetQueryStringBytes(bytes.ReplaceAll(query, []byte{';'}, []byte{'&'}))
	}
}
