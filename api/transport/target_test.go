package transport

import (
	"net/http"
	"strings"
	"testing"

	"chronos/api/apitest"
)

func TestValidHost(t *testing.T) {
	for host, want := range map[string]bool{
		"h": true, "timers.example.com": true, "timers.example.com:7253": true, "H_1-~!$&'()*+;=": true, "10.0.0.17:80": true,
		"[::1]": true, "[::ffff:10.0.0.1]:443": true, "h:": true, "h:0": true, "h:65535": true, "h:00080": true,
		"": false, ":80": false, "h:65536": false, "h:99999999999999999999": false, "h:-1": false, "h:+1": false, "h:8a": false, "h:80:81": false,
		"u@h": false, "u:p@h": false, "a b": false, "a\tb": false, "a,b": false, "h/": false, "h?": false, "h#": false, "<h>": false, "a\\b": false,
		"h\x00": false, "h\x7f": false, "\u00e9": false, "%41": false, "a|b": false, "a^b": false, "a`b": false, "a\"b": false,
		"[": false, "]": false, "[]": false, "[::1": false, "::1": false, "[::1]x": false, "[::1]80": false, "[h]": false, "[fe80::1%25eth0]": false, "a[::1]": false,
	} {
		if validHost([]byte(host)) != want {
			t.Errorf("%q is taken: %v, want %v", host, !want, want)
		}
	}
}

func TestValidTarget(t *testing.T) {
	for request, want := range map[string]bool{
		"GET /": true, "GET /timers/k": true, "GET /timers//k": true, "GET /?a=//b": true, "GET /timers/k?u=http://h/": true, "CONNECT /timers": true, "GET /%zz": true,
		"OPTIONS *": true, "GET http://h": true, "GET http://h:80/timers": true, "GET HTTPS://h/": true, "GET http://h?a": true, "GET http://[::1]/": true,
		"GET *": false, "OPTIONS *x": false, "GET timers": false, "GET ?a": false, "CONNECT h:443": false, "GET h:80/": false,
		"GET //h/timers": false, "GET //": false, "GET http:/timers": false, "GET http:///timers": false, "GET http://": false, "GET ://h/": false,
		"GET ftp://h/": false, "GET file:///etc": false, "GET javascript://h/": false, "GET http://u@h/": false, "GET http://u:p@h/": false, "GET http://h:65536/": false, "GET http://a,b/": false,
		"GET /timers/k#f": false, "GET /#": false, "GET http://h#f": false, "GET /\x00": false, "GET /a\tb": false, "GET /\x7f": false, "GET /\u00e9": false,
	} {
		method, target, _ := strings.Cut(request, " ")
		if validTarget([]byte(method), []byte(target)) != want {
			t.Errorf("%q is taken: %v, want %v", request, !want, want)
		}
	}
}

// A request that fasthttp alone would read in a way of its own is refused on the wire.
func TestLaxTargetsAndHostsAreRefused(t *testing.T) {
	s := newRig(Limits{}, nil)
	address := apitest.Serve(t, s)
	for name, raw := range map[string]string{
		"fragment":                "DELETE /timers/k#f HTTP/1.1\r\nHost: h\r\n\r\n",
		"two slashes, no host":    "DELETE //h/timers/k HTTP/1.0\r\n\r\n",
		"scheme":                  "DELETE ftp://h/timers/k HTTP/1.1\r\nHost: h\r\n\r\n",
		"user in target":          "DELETE http://u:p@h/timers/k HTTP/1.1\r\nHost: h\r\n\r\n",
		"user in host":            "DELETE /timers/k HTTP/1.1\r\nHost: u@h\r\n\r\n",
		"two hosts in one":        "DELETE /timers/k HTTP/1.1\r\nHost: a,b\r\n\r\n",
		"space in host":           "DELETE /timers/k HTTP/1.1\r\nHost: a b\r\n\r\n",
		"markup in host":          "DELETE /timers/k HTTP/1.1\r\nHost: <h>\r\n\r\n",
		"non-ASCII host":          "DELETE /timers/k HTTP/1.1\r\nHost: \u00e9\r\n\r\n",
		"port":                    "DELETE /timers/k HTTP/1.1\r\nHost: h:65536\r\n\r\n",
		"empty host, HTTP/1.0":    "DELETE /timers/k HTTP/1.0\r\nHost:\r\n\r\n",
		"bad host, absolute form": "DELETE http://h/timers/k HTTP/1.1\r\nHost: a b\r\n\r\n",
	} {
		got, closed := apitest.Send(t, apitest.Dial(t, address), raw)
		apitest.WantProblem(t, got, http.StatusBadRequest, "request-malformed", apitest.NoPointer)
		if !closed {
			t.Errorf("%s: the connection stays open", name)
		}
	}
	if n := s.executed.Load(); n != 0 {
		t.Errorf("%d operations were executed", n)
	}
}
