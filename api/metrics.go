package api

import (
	"bytes"
	"net/http"
	"time"

	"chronos/api/transport"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/valyala/fasthttp"
)

// route is what a path leads to.
type route int

const (
	routeOther route = iota
	routeCollection
	routeBatch
	routeReferences
	routeItem
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
	if ok && len(id) > 0 && bytes.IndexByte(id, '/') < 0 {
		return routeItem
	}
	return routeOther
}

// routeAt is where a path leads. Fiber undoes escapes and leaves all else as it
// was sent, and so does routeAt, while uri.Path takes /a/../b for /b. An escaped
// slash, which Fiber takes for a slash, makes no route.
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

// Methods and classes of status codes, by index into the table of observers.
const (
	methodOther = iota
	methodGet
	methodHead
	methodPost
	methodPut
	methodDelete
	methods
)

const (
	classServerError = iota
	classSuccess
	classClientError
	classes
)

func methodIndex(method []byte) int {
	switch string(method) {
	case http.MethodGet:
		return methodGet
	case http.MethodHead:
		return methodHead
	case http.MethodPost:
		return methodPost
	case http.MethodPut:
		return methodPut
	case http.MethodDelete:
		return methodDelete
	}
	return methodOther
}

func classIndex(status int) int {
	switch status / 100 {
	case 2, 3:
		return classSuccess
	case 4:
		return classClientError
	}
	return classServerError
}

// metrics counts requests. All observers are made beforehand, so a request costs
// no look-up by labels.
type metrics struct {
	duration  [routes][methods][classes]prometheus.Observer
	transport *transport.Metrics
}

// newMetrics registers the metrics with r, nowhere if that is nil. It panics if
// they are there already.
func newMetrics(r prometheus.Registerer) *metrics {
	duration := promauto.With(r).NewHistogramVec(prometheus.HistogramOpts{
		Name:    "chronos_api_request_duration_seconds",
		Help:    "Time from a request's last byte to its answer, by method, route and class of the status code.",
		Buckets: []float64{.0005, .001, .002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5},
	}, []string{"method", "route", "class"})
	m := &metrics{transport: transport.NewMetrics(r)}
	methodNames := [methods]string{"other", http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete}
	classNames := [classes]string{"5xx", "2xx", "4xx"}
	for r := range m.duration {
		for i, method := range methodNames {
			for j, class := range classNames {
				if occurs(route(r), i, j) {
					m.duration[r][i][j] = duration.WithLabelValues(method, route(r).String(), class)
				}
			}
		}
	}
	return m
}

// occurs keeps down the number of series: only what a path takes can succeed or
// fail in the server, and all that it doesn't take counts as other.
func occurs(r route, method, class int) bool {
	return method == countedMethod(r, method) && (method != methodOther || class != classSuccess)
}

func countedMethod(r route, method int) int {
	taken := false
	switch r {
	case routeCollection:
		taken = method == methodPost || method == methodGet || method == methodHead
	case routeBatch:
		taken = method == methodPost
	case routeReferences:
		taken = method == methodDelete
	case routeItem:
		taken = method != methodPost
	case routeStatistics, routeDescription, routePing:
		taken = method == methodGet || method == methodHead
	case routeOther, routes:
	}
	if !taken {
		return methodOther
	}
	return method
}

func (m *metrics) observe(rc *fasthttp.RequestCtx, took time.Duration) {
	r := routeAt(rc.URI())
	method := countedMethod(r, methodIndex(rc.Method()))
	if observer := m.duration[r][method][classIndex(rc.Response.StatusCode())]; observer != nil {
		observer.Observe(took.Seconds())
	}
}
