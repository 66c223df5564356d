package transport

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics count requests and connections that are refused, or closed, before a handler has worked
// on them.
type Metrics struct {
	// RefusedRequest counts the requests that the handler's owner has refused since too many were
	// under way.
	RefusedRequest prometheus.Counter

	unread                                        *prometheus.CounterVec
	refusedConnection, refusedClient, refusedBody prometheus.Counter // since a limit was reached
	closedIdle                                    prometheus.Counter // connections that were closed to make room
}

// NewMetrics registers the metrics with r; a nil r registers nothing. NewMetrics panics if r
// already has the metrics.
func NewMetrics(r prometheus.Registerer) *Metrics {
	auto := promauto.With(r)
	refused := auto.NewCounterVec(prometheus.CounterOpts{
		Name: "chronos_api_overload_refusals_total",
		Help: "Requests and connections refused with 503 since too much was under way, by the limit that was reached.",
	}, []string{"limit"})
	return &Metrics{
		RefusedRequest: refused.WithLabelValues("requests"),
		unread: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "chronos_api_unreadable_requests_total",
			Help: "Requests that were refused before they were read, by the code of the answer.",
		}, []string{"code"}),
		refusedConnection: refused.WithLabelValues("connections"),
		refusedClient:     refused.WithLabelValues("client"),
		refusedBody:       refused.WithLabelValues("bodies"),
		closedIdle: auto.NewCounter(prometheus.CounterOpts{
			Name: "chronos_api_idle_connections_closed_total",
			Help: "Connections that were closed between requests to make room for new ones.",
		}),
	}
}
