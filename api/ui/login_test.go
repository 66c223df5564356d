package ui_test

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"chronos/api/tokens"
	"chronos/api/ui"
	"chronos/api/ui/uitest"
)

func TestWithoutLoginEveryPageLeadsToTheLogin(t *testing.T) {
	t.Parallel()
	v := &visitor{t: t, rig: uitest.NewRig(t, uitest.New(), nil)}
	for path, want := range map[string]string{
		"/ui/": "/ui/login", "/ui/timers?key=a": "/ui/login?next=%2Fui%2Ftimers%3Fkey%3Da", "/ui/cluster": "/ui/login?next=%2Fui%2Fcluster",
		"/ui/nothing": "/ui/login?next=%2Fui%2Fnothing", "/ui/timers/x/delete": "/ui/login?next=%2Fui%2Ftimers%2Fx%2Fdelete",
	} {
		w := v.get(path)
		if got := w.Header().Get("Location"); w.Code != http.StatusSeeOther || got != want {
			t.Errorf("%s: %d to %q, want %q", path, w.Code, got, want)
		}
		if strings.Contains(w.Body.String(), "figure") {
			t.Errorf("%s shows something:\n%s", path, w.Body)
		}
	}
	if w := v.get("/ui/?part=live"); w.Code != http.StatusUnauthorized || w.Header().Get("HX-Refresh") != "true" || w.Body.Len() > 0 {
		t.Errorf("a part of a page: %d %v %s", w.Code, w.Header(), w.Body)
	}
	if w := v.post("/ui/timers/x/delete", url.Values{"version": {"0000000000000001"}}); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/ui/login" {
		t.Errorf("a change: %d to %q", w.Code, w.Header().Get("Location"))
	}
	if changes := v.rig.Backend.Changes(); changes != nil {
		t.Errorf("changes were made: %q", changes)
	}
}

func TestLoginReturnsToThePage(t *testing.T) {
	t.Parallel()
	rig := uitest.NewRig(t, uitest.New(), nil)
	for next, want := range map[string]string{
		"/ui/timers?key=a": "/ui/timers?key=a", "": "/ui/", "https://evil.example/": "/ui/", "//evil.example": "/ui/", "/dead": "/ui/", "/ui/login": "/ui/", "/ui/../dead": "/ui/",
	} {
		v := &visitor{t: t, rig: rig}
		page := v.get("/ui/login?next=" + url.QueryEscape(next)).Body.String()
		if strings.Contains(page, "evil.example") {
			t.Errorf("%q stands on the page:\n%s", next, page)
		}
		w := v.post("/ui/login", url.Values{"token": {" " + rig.Tokens["read"] + "\n"}, "next": {next}})
		if got := w.Header().Get("Location"); w.Code != http.StatusSeeOther || got != want {
			t.Errorf("%q: %d to %q, want %q", next, w.Code, got, want)
		}
	}
}

func TestCookieOfALogin(t *testing.T) {
	t.Parallel()
	rig := uitest.NewRig(t, uitest.New(), nil)
	for _, c := range []struct {
		host, name string
		secure     bool
	}{{"127.0.0.1:7254", "chronos_ui_7254", false}, {"localhost", "chronos_ui", false}, {"[::1]:80", "chronos_ui_80", true}, {"timers.example.com:x", "chronos_ui", false}} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/ui/login", strings.NewReader(url.Values{"token": {rig.Tokens["read"]}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Host = c.host
		if c.secure {
			r.TLS = &tls.ConnectionState{}
		}
		w := httptest.NewRecorder()
		rig.UI.ServeHTTP(w, r)
		cookies := w.Result().Cookies()
		if len(cookies) != 1 {
			t.Fatalf("%s: %d cookies: %s", c.host, len(cookies), w.Body)
		}
		got := cookies[0]
		if got.Name != c.name || got.Path != "/ui" || !got.HttpOnly || got.SameSite != http.SameSiteStrictMode || got.Secure != c.secure || len(got.Value) != 43 || got.MaxAge != 0 {
			t.Errorf("%s: %v", c.host, got)
		}
		if strings.Contains(got.String(), rig.Tokens["read"]) {
			t.Error("the cookie has the token")
		}
	}
}

func TestLoginRefusals(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	rig := uitest.NewRig(t, uitest.New(), slog.New(slog.NewTextHandler(&log, nil)))
	for name, c := range map[string]struct {
		token  string
		status int
		text   string
	}{
		"no token":    {"", http.StatusUnauthorized, "This token is not known"},
		"nonsense":    {"nonsense", http.StatusUnauthorized, "This token is not known"},
		"unknown":     {"chr_" + strings.Repeat("a", 43), http.StatusUnauthorized, "This token is not known"},
		"two tokens":  {rig.Tokens["read"] + " " + rig.Tokens["admin"], http.StatusUnauthorized, "This token is not known"},
		"with prefix": {rig.Tokens["prefixed"], http.StatusForbidden, "keys begin with a prefix"},
	} {
		v := &visitor{t: t, rig: rig}
		w := v.post("/ui/login", url.Values{"token": {c.token}})
		page := v.want(w, c.status, c.text)
		if len(w.Result().Cookies()) != 0 {
			t.Errorf("%s: a cookie is set", name)
		}
		if c.token != "" && (strings.Contains(page, c.token) || strings.Contains(log.String(), c.token)) {
			t.Errorf("%s: the token is shown or logged", name)
		}
	}
}

func TestLoginTriesAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &visitor{t: t, rig: uitest.NewRig(t, uitest.New(), nil)}
		allowed := 0
		for range 100 {
			w := v.post("/ui/login", url.Values{"token": {"chr_guess"}})
			if w.Code == http.StatusUnauthorized {
				allowed++
				continue
			}
			v.want(w, http.StatusTooManyRequests, "Too many logins")
			if w.Header().Get("Retry-After") != "1" {
				t.Errorf("Retry-After is %q", w.Header().Get("Retry-After"))
			}
		}
		if allowed != 10 {
			t.Errorf("%d tries were allowed, want 10", allowed)
		}
		time.Sleep(time.Second)
		v.want(v.post("/ui/login", url.Values{"token": {v.rig.Tokens["read"]}}), http.StatusSeeOther)
	})
}

func TestLinkLogsInOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rig := uitest.NewRig(t, uitest.New(), nil)
		link := rig.UI.LoginLink(rig.Tokens["admin"])
		first := &visitor{t: t, rig: rig}
		first.want(first.get(link), http.StatusOK, "The link has logged you in", `content="0; url=/ui/"`)
		first.want(first.get("/ui/"), http.StatusOK, "<b>admin</b>")
		second := &visitor{t: t, rig: rig}
		second.want(second.get(link), http.StatusForbidden, "used before")
		second.want(second.get("/ui/login?once=guess"), http.StatusForbidden, "used before")
		second.want(second.get("/ui/"), http.StatusSeeOther)

		late := rig.UI.LoginLink(rig.Tokens["admin"])
		time.Sleep(15*time.Minute + time.Second)
		second.want(second.get(late), http.StatusForbidden, "over 15 minutes old")
	})
}

// TestOldLinksMakeRoom: the oldest of too many links ends.
func TestOldLinksMakeRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rig := uitest.NewRig(t, uitest.New(), nil)
		var links []string
		for range 17 {
			links = append(links, rig.UI.LoginLink(rig.Tokens["read"]))
			time.Sleep(time.Second)
		}
		for i, want := range map[int]int{0: http.StatusForbidden, 1: http.StatusOK, 16: http.StatusOK} {
			v := &visitor{t: t, rig: rig}
			if w := v.get(links[i]); w.Code != want {
				t.Errorf("link %d: %d, want %d", i, w.Code, want)
			}
		}
	})
}

func TestLogout(t *testing.T) {
	t.Parallel()
	v := visit(t, uitest.NewRig(t, uitest.New(), nil), "admin")
	kept := v.cookies
	w := v.post("/ui/logout", nil)
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/ui/login?out=1" || w.Result().Cookies()[0].MaxAge >= 0 {
		t.Errorf("logout: %d %v", w.Code, w.Header())
	}
	v.want(v.follow(w), http.StatusOK, "You are logged out")
	v.cookies = kept // a browser that does not forget
	v.want(v.get("/ui/"), http.StatusSeeOther)
}

func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := visit(t, uitest.NewRig(t, uitest.New(), nil), "read")
		for range 3 {
			time.Sleep(11 * time.Hour)
			v.want(v.get("/ui/"), http.StatusOK)
		}
		time.Sleep(12*time.Hour + time.Second)
		v.want(v.get("/ui/"), http.StatusSeeOther)
	})
}

// TestTheOldestSessionMakesRoom: there are at most 1,000 sessions.
func TestTheOldestSessionMakesRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rig := uitest.NewRig(t, uitest.New(), nil)
		oldest, second := visit(t, rig, "read"), visit(t, rig, "read")
		for range 998 {
			time.Sleep(time.Second) // the tries are limited
			visit(t, rig, "read")
		}
		second.want(second.get("/ui/"), http.StatusOK) // is used again
		visit(t, rig, "read")
		oldest.want(oldest.get("/ui/"), http.StatusSeeOther)
		second.want(second.get("/ui/"), http.StatusOK)
	})
}

// changing is an Authorizer that an operator changes.
type changing struct{ *tokens.Set }

func TestARevokedTokenEndsTheSession(t *testing.T) {
	t.Parallel()
	b := uitest.New()
	rig := uitest.NewRig(t, b, nil)
	by := &changing{rig.Set}
	rig.UI = ui.New(ui.Config{Cluster: b, History: b, Lister: b, Timers: b, Letters: b.Dead, Destinations: b, Topology: b, Authorizer: by})
	v := visit(t, rig, "admin")
	v.want(v.get("/ui/"), http.StatusOK)
	valid := by.Set
	empty, err := tokens.Parse([]byte("other admin sha256:" + strings.Repeat("ab", 32) + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	by.Set = empty
	v.want(v.get("/ui/"), http.StatusSeeOther)
	by.Set = valid // the session is over nevertheless
	v.want(v.get("/ui/"), http.StatusSeeOther)
}

// TestRateOfATokenIsKept: a page costs one request of a token's rate, and a page beyond the rate says so.
func TestRateOfATokenIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := uitest.New()
		rig := uitest.NewRig(t, b, nil)
		token, line, err := tokens.Generate("slow", tokens.List, "", strings.NewReader(strings.Repeat("x", 32)))
		if err != nil {
			t.Fatal(err)
		}
		set, err := tokens.Parse([]byte(line + " rate=1 burst=3\n"))
		if err != nil {
			t.Fatal(err)
		}
		rig.Tokens["slow"] = token.Reveal()
		rig.UI = ui.New(ui.Config{Cluster: b, History: b, Lister: b, Timers: b, Letters: b.Dead, Destinations: b, Topology: b, Authorizer: set})
		v := visit(t, rig, "slow")
		v.want(v.get("/ui/"), http.StatusOK)
		v.want(v.get("/ui/timers"), http.StatusOK)
		w := v.get("/ui/timers")
		v.want(w, http.StatusTooManyRequests, "come faster than the token")
		if w.Header().Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		time.Sleep(time.Second)
		v.want(v.get("/ui/timers"), http.StatusOK)
	})
}

// TestNobodyEntersWithoutAnAuthorizer: a node that lacks tokens lets nobody in.
func TestNobodyEntersWithoutAnAuthorizer(t *testing.T) {
	t.Parallel()
	b := uitest.New()
	rig := uitest.NewRig(t, b, nil)
	rig.UI = ui.New(ui.Config{Cluster: b, History: b, Lister: b, Timers: b, Letters: b.Dead, Destinations: b, Topology: b})
	v := &visitor{t: t, rig: rig}
	v.want(v.post("/ui/login", url.Values{"token": {rig.Tokens["admin"]}}), http.StatusUnauthorized)
}
