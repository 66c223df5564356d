package api

import (
	"net/http"
	"strings"
	"time"

	"chronos/api/transport"
	"chronos/scheduler/measure"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/valyala/fasthttp"
)

// Methods and classes of status codes, by index into the table of observers.
const (
	methodOther = iota
	methodGet
	methodPost
	methodPut
	methodPatch
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
	case http.MethodGet, http.MethodHead:
		return methodGet
	case http.MethodPost:
		return methodPost
	case http.MethodPut:
		return methodPut
	case http.MethodPatch:
		return methodPatch
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

// metrics counts requests. All observers are made beforehand, so a request costs no look-up by
// labels.
type metrics struct {
	duration  [routes][methods][classes]prometheus.Observer
	transport *transport.Metrics
}

// newMetrics registers the metrics with r; a nil r registers nothing. newMetrics panics if r
// already has the metrics.
func newMetrics(r prometheus.Registerer) *metrics {
	duration := promauto.With(r).NewHistogramVec(measure.Native(prometheus.HistogramOpts{
		Name:    "chronos_api_request_duration_seconds",
		Help:    "Time from a request's last byte to its answer, by method, route and class of the status code. HEAD counts as GET.",
		Buckets: []float64{.0005, .001, .002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5},
	}), []string{"method", "route", "class"})
	m := &metrics{transport: transport.NewMetrics(r)}
	methodNames := [methods]string{"other", http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
	classNames := [classes]string{"5xx", "2xx", "4xx"}
	for r := range m.duration {
		allowed := route(r).allowed()
		if route(r) == routeDescription || route(r) == routePing {
			m.duration[r] = m.duration[routeOther] // tells nothing about timers
			continue
		}
		for i, method := range methodNames {
			for j, class := range classNames {
				switch {
				case i == methodOther && j == classSuccess && route(r) != routeOther: // cannot happen
				case i == methodOther, strings.Contains(allowed, method):
					m.duration[r][i][j] = duration.WithLabelValues(method, route(r).String(), class)
				default: // counts as other, which keeps down the number of series
					m.duration[r][i][j] = m.duration[r][methodOther][j]
				}
			}
		}
	}
	return m
}

func (m *metrics) observe(rc *fasthttp.RequestCtx, took time.Duration) {
	observer := m.duration[routeAt(rc.URI())][methodIndex(rc.Method())][classIndex(rc.Response.StatusCode())]
	if observer != nil {
		observer.Observe(took.Seconds())
	}
}
