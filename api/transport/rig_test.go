package transport

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"chronos/api/apitest"
	"chronos/api/wire"
	"chronos/scheduler/verify/testkit"
)

// rig is a Server whose handler answers much as the API does.
type rig struct {
	*Server

	executed atomic.Int64 // requests that change something
	before   func()       // is called at the beginning of each DELETE
	found    []byte       // the answer to GET; nil for 404
	denied   error        // the answer of Authorize
}

// silence logs nothing, like Fiber's logger.
type silence struct{}

func (silence) Printf(string, ...any) {}

func newRig(limits Limits, registry prometheus.Registerer) *rig {
	r := &rig{before: func() {}}
	r.Server = New(&fasthttp.Server{Handler: r.handle, NoDefaultServerHeader: true, Logger: silence{}}, Config{
		Limits: limits.WithDefaults(), Metrics: NewMetrics(registry), Authorize: func([]byte, []byte) (string, error) { return "", r.denied },
	})
	return r
}

func (r *rig) handle(rc *fasthttp.RequestCtx) {
	switch method := string(rc.Method()); {
	case method == http.MethodDelete:
		r.before()
		r.executed.Add(1)
		rc.SetStatusCode(http.StatusCreated)
	case (method == http.MethodPost || method == http.MethodPut) && len(rc.Request.Body()) == 0:
		rc.SetStatusCode(http.StatusBadRequest)
	case method == http.MethodPost, method == http.MethodPut:
		r.executed.Add(1)
	case r.found == nil:
		Refuse(&rc.Response, wire.NewProblem(http.StatusNotFound, "none", "none"))
	default:
		if err := ReserveAnswer(rc.Conn(), len(r.found)); err != nil {
			p, _ := wire.ProblemOf(err)
			Refuse(&rc.Response, p)
			return
		}
		rc.Response.SetBodyRaw(r.found)
	}
}

// serveOne starts the background work that must run outside a synctest bubble.
func (r *rig) serveOne() { _ = r.http.ServeConn(&scripted{pieces: [][]byte{[]byte(lookup)}}) }

// until waits for a condition.
func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	testkit.Eventually(t, apitest.Patience, what, holds)
}

const lookup = "GET /timers/k HTTP/1.1\r\nHost: h\r\n\r\n"
