package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"chronos/api/apitest"
)

// Slashes and escaped slashes are distinct, and dots lead nowhere.
func TestEscapedPaths(t *testing.T) {
	timers, executed := counted()
	registry := prometheus.NewRegistry()
	address := apitest.Serve(t, New(Config{Timers: timers, Registerer: registry}))
	for _, path := range []string{
		"/timers%2Fp1", "/timers%2fp1", "/timers/a%2F..%2Fp1", "/x/..%2Ftimers/p1", "/timers/%2e%2e/timers/p1", "/x/../timers/p1", "/./timers/p1",
		"/timers/a%2Fb", "/%2Ftimers", "/openapi.yaml%2F", "/timers%2F..%2Fopenapi.yaml", "/timers/..%2f%zz",
	} {
		for _, method := range []string{"GET", "PUT", "DELETE", "POST", "PATCH", "BREW"} {
			got, _ := apitest.Send(t, apitest.Dial(t, address), apitest.WithLength(method+" "+path+" HTTP/1.1\r\nHost: h\r\n"))
			apitest.WantProblem(t, got, http.StatusNotFound, "path-unknown", apitest.NoPointer)
			if allow, has := got.Header["Allow"]; has {
				t.Errorf("%s %s: Allow %q", method, path, allow)
			}
		}
	}
	if n := executed.Load(); n != 0 {
		t.Errorf("%d operations were executed", n)
	}
	if have := apitest.Samples(t, registry, "chronos_api_request_duration_seconds"); have["4xx other other"] != 12*6 || len(have) != 1 {
		t.Errorf("counted %v", have)
	}
	for _, path := range []string{"/timers/%70%31", "/%74imers/p1"} { // other spellings of /timers/p1
		got, _ := apitest.Send(t, apitest.Dial(t, address), apitest.WithLength("PUT "+path+" HTTP/1.1\r\nHost: h\r\n"))
		if location := got.Header.Get("Location"); got.Status != 200 || !strings.HasPrefix(location, "/timers/p1-") {
			t.Errorf("%s: have %d and %q", path, got.Status, location)
		}
	}
}
