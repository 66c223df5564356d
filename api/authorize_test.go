package api

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chronos/api/apitest"
	"chronos/api/tokens"
	"chronos/scheduler/timer"
)

// guarded is a server with a token for each role, and the tokens.
func guarded(t testing.TB, timers Timers) (s *Server, byRole map[tokens.Role]string) {
	t.Helper()
	var file strings.Builder
	byRole = map[tokens.Role]string{}
	for _, role := range []tokens.Role{tokens.Read, tokens.Write, tokens.List, tokens.Admin} {
		token, line, err := tokens.Generate("name-"+role.String(), role, "", rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		byRole[role] = token.Reveal()
		file.WriteString(line + "\n")
	}
	set, err := tokens.Parse([]byte(file.String()))
	if err != nil {
		t.Fatal(err)
	}
	return New(Config{Timers: timers, Authorizer: set}), byRole
}

func TestRoles(t *testing.T) {
	s, byRole := guarded(t, &fakeTimers{})
	for _, c := range []struct {
		method, path, body string
		role               tokens.Role // the least role that will do
		status             int
	}{
		{"POST", "/timers", apitest.Simple, tokens.Write, 200},
		{"POST", "/timers/batch", apitest.ListOf(apitest.Simple), tokens.Write, 200},
		{"GET", "/timers/batch", "", tokens.Read, 405},
		{"PUT", "/timers/k", apitest.Simple, tokens.Write, 200},
		{"GET", "/timers/k", "", tokens.Read, 200},
		{"HEAD", "/timers/k", "", tokens.Read, 200},
		{"GET", "/statistics", "", tokens.Read, 200},
		{"HEAD", "/statistics", "", tokens.Read, 200},
		{"PUT", "/statistics", apitest.Simple, tokens.Write, 405},
		{"GET", "/nothing", "", tokens.Read, 404},
		{"PATCH", "/timers/k", apitest.Simple, tokens.Write, 200},
		{"PATCH", "/timers", "", tokens.Write, 405},
		{"DELETE", "/timers/k", "", tokens.Write, 201},
		{"GET", resyncOf("a"), "", tokens.Admin, 200},
		{"DELETE", "/timers/references?node-for-replicas=a", references("tea"), tokens.Admin, 202},
	} {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			for role, token := range byRole {
				got := ask(t, s, c.method, c.path, c.body, "Authorization", "Bearer "+token)
				switch {
				case role.Allows(c.role) && got.Status != c.status:
					t.Errorf("%s %s as %s: have %d, want %d", c.method, c.path, role, got.Status, c.status)
				case !role.Allows(c.role):
					apitest.WantProblem(t, got, http.StatusForbidden, "token-scope", apitest.NoPointer)
				}
			}
		})
	}
}

func TestTokensAreAskedFor(t *testing.T) {
	timers := &fakeTimers{before: func(_ context.Context, operation string, _ timer.ID) error {
		t.Errorf("%s was carried out", operation)
		return nil
	}}
	s, byRole := guarded(t, timers)
	stranger, _, err := tokens.Generate("stranger", tokens.Admin, "", rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ header, code string }{
		"none":                 {"", "token-missing"},
		"another scheme":       {"Basic " + byRole[tokens.Admin], "token-missing"},
		"the token alone":      {byRole[tokens.Admin], "token-missing"},
		"someone else's":       {"Bearer " + stranger.Reveal(), "token-unknown"},
		"with something added": {"Bearer " + byRole[tokens.Admin] + "x", "token-unknown"},
		"cut off":              {"Bearer " + byRole[tokens.Admin][:40], "token-unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, method := range []string{"POST", "PUT", "PATCH", "GET", "DELETE"} {
				path := "/timers/k"
				if method == "POST" {
					path = "/timers"
				}
				var headers []string
				if c.header != "" {
					headers = []string{"Authorization", c.header}
				}
				got := ask(t, s, method, path+"?access_token="+byRole[tokens.Admin], apitest.Simple, headers...)
				apitest.WantProblem(t, got, http.StatusUnauthorized, c.code, apitest.NoPointer)
				if challenge := got.Header.Get("WWW-Authenticate"); challenge != `Bearer realm="chronos"` {
					t.Errorf("WWW-Authenticate %q", challenge)
				}
				if bytes.Contains(got.Body, []byte("chr_")) {
					t.Errorf("the answer repeats a token: %s", got.Body)
				}
			}
		})
	}
}

// TestTwoAuthorizationHeaders: a server on the way may have read the other header.
func TestTwoAuthorizationHeaders(t *testing.T) {
	s, byRole := guarded(t, &fakeTimers{})
	req := httptest.NewRequestWithContext(t.Context(), "POST", "/timers", strings.NewReader(apitest.Simple))
	for _, role := range []tokens.Role{tokens.Write, tokens.Admin} {
		req.Header.Add("Authorization", "Bearer "+byRole[role])
	}
	resp, err := s.app.Test(req, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // read from memory
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	apitest.WantProblem(t, apitest.Answer{Status: resp.StatusCode, Header: resp.Header, Body: body}, http.StatusUnauthorized, "token-missing", apitest.NoPointer)
}

// TestDescriptionNeedsNoToken also checks that no other spelling of the path gets by.
func TestDescriptionNeedsNoToken(t *testing.T) {
	s, _ := guarded(t, &fakeTimers{})
	if got := ask(t, s, "GET", openAPIPath, ""); got.Status != http.StatusOK || !bytes.Equal(got.Body, openAPI) {
		t.Errorf("have %d, %d bytes", got.Status, len(got.Body))
	}
	for _, path := range []string{"/timers/..%2fopenapi.yaml", "/timers/%2e%2e/openapi.yaml", "//openapi.yaml", "/openapi.yaml/"} {
		if got := ask(t, s, "GET", path, ""); got.Status != http.StatusUnauthorized {
			t.Errorf("%s: have %d, want 401", path, got.Status)
		}
	}
}

func TestRateOfAToken(t *testing.T) {
	token, line, err := tokens.Generate("slow", tokens.Write, "", rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	set, err := tokens.Parse([]byte(line + " rate=0.01 burst=3\n"))
	if err != nil {
		t.Fatal(err)
	}
	s := New(Config{Timers: &fakeTimers{}, Authorizer: set})
	for range 3 {
		if got := ask(t, s, "POST", "/timers", apitest.Simple, "Authorization", "Bearer "+token.Reveal()); got.Status != http.StatusOK {
			t.Fatalf("within the rate: %d %s", got.Status, got.Body)
		}
	}
	got := ask(t, s, "POST", "/timers", apitest.Simple, "Authorization", "bearer "+token.Reveal())
	apitest.WantProblem(t, got, http.StatusTooManyRequests, "rate-limited", apitest.NoPointer)
	if after := got.Header.Get("Retry-After"); after != "100" {
		t.Errorf("Retry-After %q, want 100", after)
	}
}

// The body of a request that is not allowed gets no memory.
func TestBodiesOfStrangersAreNotReceived(t *testing.T) {
	timers, executed := counted()
	s, byRole := guarded(t, timers)
	address := apitest.Serve(t, s)
	reader, writer := "Authorization: Bearer "+byRole[tokens.Read]+"\r\n", "Authorization: Bearer "+byRole[tokens.Write]+"\r\n"
	for name, c := range map[string]struct {
		head   string
		status int
		code   string
	}{
		"large":                {"Content-Length: 8193\r\n", 401, "token-missing"},
		"chunked":              {"Transfer-Encoding: chunked\r\n", 401, "token-missing"},
		"invited":              {"Expect: 100-continue\r\nContent-Length: 9\r\n", 401, "token-missing"},
		"of an unknown token":  {"Authorization: Bearer x\r\nContent-Length: 8193\r\n", 401, "token-unknown"},
		"of two tokens":        {reader + writer + "Content-Length: 8193\r\n", 401, "token-missing"},
		"of a reader":          {reader + "Content-Length: 8193\r\n", 403, "token-scope"},
		"of a reader, chunked": {"Transfer-Encoding: chunked\r\n" + reader, 403, "token-scope"},
	} {
		for _, line := range []string{"POST /timers", "DELETE /timers/k", "POST /openapi.yaml", "BREW /nothing"} {
			t.Run(name+" "+line, func(t *testing.T) {
				got, closed := apitest.Send(t, apitest.Dial(t, address), line+" HTTP/1.1\r\nHost: h\r\n"+c.head+"\r\n")
				apitest.WantProblem(t, got, c.status, c.code, apitest.NoPointer)
				if !closed || (got.Header.Get("WWW-Authenticate") != "") != (c.status == 401) {
					t.Errorf("closed %v, headers %v", closed, got.Header)
				}
			})
		}
	}
	if n := executed.Load(); n != 0 {
		t.Errorf("%d operations were executed", n)
	}
}

// A clearance holds only for the request that got the clearance before its body came.
func TestClearanceIsForOneRequest(t *testing.T) {
	timers, executed := counted()
	s, byRole := guarded(t, timers)
	address := apitest.Serve(t, s)
	const stranger = "DELETE /timers/k HTTP/1.1\r\nHost: h\r\n\r\n"
	head := "PUT /timers/k HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + byRole[tokens.Write] + "\r\n"
	large := apitest.WithMore(`"a":"` + strings.Repeat("x", 9000) + `"`)
	for name, cleared := range map[string]string{
		"large":   head + "Content-Length: " + strconv.Itoa(len(large)) + "\r\n\r\n" + large,
		"chunked": head + "Transfer-Encoding: chunked\r\n\r\n" + apitest.InChunks(apitest.Simple, 50) + "\r\n",
		"small":   apitest.WithLength(head),
	} {
		t.Run(name, func(t *testing.T) {
			executed.Store(0)
			c := apitest.Dial(t, address)
			if _, err := io.WriteString(c, stranger+cleared+stranger+cleared+cleared+stranger); err != nil {
				t.Fatal(err)
			}
			answers := bufio.NewReader(c)
			var have []int
			for range 6 {
				have = append(have, apitest.Receive(t, answers).Status)
			}
			if diff := cmp.Diff([]int{401, 200, 401, 200, 200, 401}, have); diff != "" || executed.Load() != 3 {
				t.Errorf("%d operations were executed; -want +have:\n%s", executed.Load(), diff)
			}
		})
	}
}

// A request counts once towards its token's rate, whatever its body.
func TestRateCountsLargeBodiesOnce(t *testing.T) {
	token, line, err := tokens.Generate("slow", tokens.Write, "", rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	set, err := tokens.Parse([]byte(line + " rate=0.01 burst=4\n"))
	if err != nil {
		t.Fatal(err)
	}
	c := apitest.Dial(t, apitest.Serve(t, New(Config{Timers: &fakeTimers{}, Authorizer: set})))
	head := "POST /timers HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + token.Reveal() + "\r\n"
	large := apitest.WithMore(`"a":"` + strings.Repeat("x", 9000) + `"`)
	raw := head + "Content-Length: " + strconv.Itoa(len(large)) + "\r\n\r\n"
	for range 2 {
		for _, request := range []string{raw + large, head + "Transfer-Encoding: chunked\r\n\r\n" + apitest.InChunks(apitest.Simple, 50) + "\r\n"} {
			if got, _ := apitest.Send(t, c, request); got.Status != http.StatusOK {
				t.Fatalf("within the rate: %d %s", got.Status, got.Body)
			}
		}
	}
	got, closed := apitest.Send(t, c, raw)
	apitest.WantProblem(t, got, http.StatusTooManyRequests, "rate-limited", apitest.NoPointer)
	if after := got.Header.Get("Retry-After"); after != "100" || !closed {
		t.Errorf("Retry-After %q, want 100; closed %v", after, closed)
	}
}
