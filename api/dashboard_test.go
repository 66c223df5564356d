package api

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"chronos/api/apitest"
	"chronos/api/ui/uitest"
)

// dashboard sends a request to an admin listener with a dashboard. headers are names and values in turn.
func dashboard(t *testing.T, rig *uitest.Rig, method, path string, form url.Values, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(form.Encode()))
	r.Host = "127.0.0.1:7254"
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
			continue
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	NewAdmin(AdminConfig{Dashboard: rig.UI, Topology: &fakeTopology{}, Authorizer: anyone{}}).server.Handler.ServeHTTP(w, r)
	return w
}

func TestTheRootLeadsToTheDashboard(t *testing.T) {
	t.Parallel()
	rig := uitest.NewRig(t, uitest.New(), nil)
	if w := dashboard(t, rig, http.MethodGet, "/", nil); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/ui/" {
		t.Errorf("/: %d to %q", w.Code, w.Header().Get("Location"))
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
	r.Host = "localhost"
	for want, admin := range map[int]*Admin{http.StatusSeeOther: NewAdmin(AdminConfig{Dashboard: rig.UI}), http.StatusNotFound: NewAdmin(AdminConfig{})} {
		if got := answerTo(t, admin, r, ""); got.Status != want {
			t.Errorf("/: %d, want %d", got.Status, want)
		}
	}
}

// TestFormsAreForTheDashboardAlone: a form of the dashboard is let pass with the cookie of a login; pages of
// other sites, callbacks and unknown hosts are refused before; the other paths take JSON alone.
func TestFormsAreForTheDashboardAlone(t *testing.T) {
	t.Parallel()
	rig := uitest.NewRig(t, uitest.New(), nil)
	login := dashboard(t, rig, http.MethodPost, "/ui/login", url.Values{"token": {rig.Tokens["admin"]}}, "Origin", "http://127.0.0.1:7254", "Sec-Fetch-Site", "same-origin")
	if login.Code != http.StatusSeeOther {
		t.Fatalf("login: %d %s", login.Code, login.Body)
	}
	cookie, _, _ := strings.Cut(login.Header().Get("Set-Cookie"), ";")
	drain := func(path string, headers ...string) *httptest.ResponseRecorder {
		return dashboard(t, rig, http.MethodPost, path, url.Values{"force": {"true"}}, headers...)
	}
	for code, headers := range map[string][]string{
		"cross-origin":  {"Cookie", cookie, "Origin", "http://evil.example", "Sec-Fetch-Site", "cross-site"},
		"host-unknown":  {"Cookie", cookie, "Host", "evil.example"},
		"from-callback": {"Cookie", cookie, "webhook-id", "a.b.1"},
	} {
		got := recorded(drain("/ui/cluster/b/drain", headers...))
		apitest.WantProblem(t, got, map[string]int{"cross-origin": 403, "host-unknown": 421, "from-callback": 403}[code], code, apitest.NoPointer)
	}
	// Browsers of 2019 and before send no Sec-Fetch-Site, but an Origin.
	apitest.WantProblem(t, recorded(drain("/ui/cluster/b/drain", "Cookie", cookie, "Origin", "http://evil.example")), http.StatusForbidden, "cross-origin", apitest.NoPointer)
	if w := drain("/ui/cluster/b/drain"); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/ui/login" {
		t.Errorf("without the cookie: %d", w.Code)
	}
	apitest.WantProblem(t, recorded(drain("/topology/shards/b/drain", "Cookie", cookie)), http.StatusUnsupportedMediaType, "content-type", apitest.NoPointer)
	apitest.WantProblem(t, recorded(drain("/uitopology/shards", "Cookie", cookie)), http.StatusUnsupportedMediaType, "content-type", apitest.NoPointer)
	if changes := rig.Backend.Changes(); changes != nil {
		t.Fatalf("changes were made: %q", changes)
	}
	if w := drain("/ui/cluster/b/drain", "Cookie", cookie, "Origin", "http://127.0.0.1:7254", "Sec-Fetch-Site", "same-origin"); w.Code != http.StatusSeeOther || len(rig.Backend.Changes()) != 1 {
		t.Errorf("with the cookie: %d %s", w.Code, w.Body)
	}
	// The cookie is of no use outside of the dashboard.
	if w := dashboard(t, rig, http.MethodGet, "/topology", nil, "Cookie", cookie); w.Code == http.StatusOK && strings.Contains(w.Header().Get("Set-Cookie"), "chronos") {
		t.Errorf("/topology with the cookie: %d", w.Code)
	}
}

// recorded is an answer for apitest. The description of the listener leaves the dashboard out.
func recorded(w *httptest.ResponseRecorder) apitest.Answer {
	return apitest.Answer{Status: w.Code, Header: w.Header(), Body: w.Body.Bytes()}
}
