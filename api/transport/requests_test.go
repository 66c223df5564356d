package transport

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"chronos/api/apitest"

	"github.com/prometheus/client_golang/prometheus"
)

func TestUnreadableRequests(t *testing.T) {
	registry := prometheus.NewRegistry()
	s := newRig(Limits{MaxBody: 2000}, registry)
	address := apitest.Serve(t, s)
	const head = "POST /timers HTTP/1.1\r\nHost: echo\r\n"
	chunked := "5\r\n{\"a\":\r\n2\r\n1}\r\n0\r\n\r\n"
	for name, tc := range map[string]struct {
		raw    string
		status int
		code   string
	}{
		"no HTTP":                          {"echo echo\r\n\r\n", 400, "request-malformed"},
		"no version":                       {"GET /echo\r\n\r\n", 400, "request-malformed"},
		"header without colon":             {"GET /timers/k HTTP/1.1\r\necho\r\n\r\n", 400, "request-malformed"},
		"space before colon":               {head + "Content-Length : 2\r\n\r\n{}", 400, "request-malformed"},
		"two hosts":                        {head + "Host: echo2\r\nContent-Length: 2\r\n\r\n{}", 400, "request-malformed"},
		"length no number":                 {head + "Content-Length: echo\r\n\r\n{}", 400, "request-malformed"},
		"length negative":                  {head + "Content-Length: -2\r\n\r\n{}", 400, "request-malformed"},
		"two lengths":                      {head + "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", 400, "request-malformed"},
		"broken chunk":                     {head + "Transfer-Encoding: chunked\r\n\r\necho\r\n", 400, "request-malformed"},
		"length and transfer-encoding":     {head + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked, 400, "request-malformed"},
		"transfer-encoding and length":     {head + "transfer-encoding: chunked\r\ncontent-length: 2\r\n\r\n" + chunked, 400, "request-malformed"},
		"identity and length":              {head + "Transfer-Encoding: identity\r\nContent-Length: 2\r\n\r\n{}", 400, "request-malformed"},
		"gzip, chunked":                    {head + "Transfer-Encoding: gzip, chunked\r\n\r\n" + chunked, 400, "request-malformed"},
		"chunked twice":                    {head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked, 400, "request-malformed"},
		"chunked in HTTP/1.0":              {"POST /timers HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked, 400, "request-malformed"},
		"body too large":                   {head + "Content-Length: 2001\r\n\r\n" + strings.Repeat("echo ", 401)[:2001], 413, "body-too-large"},
		"body far too large":               {head + "Content-Length: 2000000\r\n\r\n" + strings.Repeat("echo ", 400000), 413, "body-too-large"},
		"body too large in chunks":         {head + "Transfer-Encoding: chunked\r\n\r\n7d1\r\n" + strings.Repeat("echo ", 401)[:2001] + "\r\n0\r\n\r\n", 413, "body-too-large"},
		"body too large, but is it wanted": {head + "Expect: 100-continue\r\nContent-Length: 2001\r\n\r\n", 0, ""},
		"headers too large":                {head + "Echo: " + strings.Repeat("echo ", readBuffer/5) + "\r\n\r\n", 431, "header-too-large"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.status == 0 {
				expectContinueThenRefusal(t, apitest.Dial(t, address), tc.raw)
				return
			}
			got, closed := apitest.Send(t, apitest.Dial(t, address), tc.raw)
			apitest.WantProblem(t, got, tc.status, tc.code, apitest.NoPointer)
			if !closed {
				t.Error("the connection stays open")
			}
			if shown := strings.ToLower(fmt.Sprint(string(got.Body), got.Header)); strings.Contains(shown, "echo") {
				t.Errorf("the answer holds what was sent: %s", shown)
			}
		})
	}
	if have := apitest.Samples(t, registry, "chronos_api_unreadable_requests_total"); len(have) != 3 || have["body-too-large"] != 4 || have["header-too-large"] != 1 {
		t.Errorf("counted as unreadable: %v", have)
	}
}

func expectContinueThenRefusal(t *testing.T, c net.Conn, raw string) {
	t.Helper()
	if _, err := io.WriteString(c, raw); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(c)
	if first := apitest.Receive(t, reader); first.Status == http.StatusContinue {
		apitest.WantProblem(t, apitest.Receive(t, reader), 413, "body-too-large", apitest.NoPointer)
	} else {
		apitest.WantProblem(t, first, 413, "body-too-large", apitest.NoPointer)
	}
}

func TestReadableRequests(t *testing.T) {
	address := apitest.Serve(t, newRig(Limits{MaxBody: 2000}, nil))
	c := apitest.Dial(t, address)
	filled := apitest.WithMore(`"a":"` + strings.Repeat("x", 2000-len(apitest.WithMore(`"a":""`))) + `"`)
	for name, raw := range map[string]string{
		"length":        "POST /timers HTTP/1.1\r\nHost: h\r\nContent-Length: " + strconv.Itoa(len(apitest.Simple)) + "\r\n\r\n" + apitest.Simple,
		"chunked":       "POST /timers HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + strconv.FormatInt(int64(len(apitest.Simple)), 16) + "\r\n" + apitest.Simple + "\r\n0\r\n\r\n",
		"largest body":  "POST /timers HTTP/1.1\r\nHost: h\r\nContent-Length: 2000\r\n\r\n" + filled,
		"absolute form": "PUT http://h/timers/k HTTP/1.1\r\nHost: h\r\nContent-Length: " + strconv.Itoa(len(apitest.Simple)) + "\r\n\r\n" + apitest.Simple,
		"multipart": "POST /timers HTTP/1.1\r\nHost: h\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: " +
			strconv.Itoa(len(apitest.Simple)) + "\r\n\r\n" + apitest.Simple,
	} {
		got, closed := apitest.Send(t, c, raw)
		if got.Status != http.StatusOK || closed {
			t.Errorf("%s: have %d, closed %v: %s", name, got.Status, closed, got.Body)
		}
	}
	got, closed := apitest.Send(t, apitest.Dial(t, address), "POST /timers HTTP/1.0\r\nContent-Length: "+strconv.Itoa(len(apitest.Simple))+"\r\n\r\n"+apitest.Simple)
	if got.Status != http.StatusOK || !closed {
		t.Errorf("HTTP/1.0: have %d, closed %v: %s", got.Status, closed, got.Body)
	}
}

// A client that is slow with a request gets a timeout as the answer, in virtual time.
func TestSlowRequestsTimeOut(t *testing.T) {
	s := newRig(Limits{}, nil)
	s.serveOne() // starts background work outside the bubble
	for name, raw := range map[string]string{
		"half a header": "POST /timers HTTP/1.1\r\nHost",
		"half a body":   "POST /timers HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n{",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				served := make(chan struct{})
				go func() {
					defer close(served)
					_ = s.http.ServeConn(&conn{Conn: theirs, server: s.Server}) // the answer says what went wrong
				}()
				began := time.Now()
				if _, err := io.WriteString(ours, raw); err != nil {
					t.Fatal(err)
				}
				got, closed := apitest.Await(t, ours)
				apitest.WantProblem(t, got, 408, "request-timeout", apitest.NoPointer)
				if took := time.Since(began); took != readTimeout || !closed {
					t.Errorf("answered after %v, closed %v; want %v and closed", took, closed, readTimeout)
				}
				<-served
			})
		})
	}
}
