package ui_test

import (
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"chronos/api/ui/uitest"
)

var update = flag.Bool("update", false, "write the pages to testdata")

// visitor is a browser without script. Browsers of a name send the cookies of the name.
type visitor struct {
	t       *testing.T
	rig     *uitest.Rig
	cookies []*http.Cookie
}

// visit logs in with the token of the name.
func visit(t *testing.T, rig *uitest.Rig, token string) *visitor {
	t.Helper()
	v := &visitor{t: t, rig: rig}
	page := v.post("/ui/login", url.Values{"token": {rig.Tokens[token]}})
	if page.Code != http.StatusSeeOther || page.Header().Get("Location") != "/ui/" {
		t.Fatalf("login with %s: %d %s", token, page.Code, page.Body)
	}
	return v
}

func (v *visitor) send(r *http.Request) *httptest.ResponseRecorder {
	v.t.Helper()
	r.Host = "127.0.0.1:7254"
	for _, c := range v.cookies {
		r.AddCookie(c)
	}
	w := httptest.NewRecorder()
	v.rig.UI.ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		v.cookies = []*http.Cookie{c}
	}
	return w
}

func (v *visitor) get(path string) *httptest.ResponseRecorder {
	v.t.Helper()
	return v.send(httptest.NewRequestWithContext(v.t.Context(), http.MethodGet, path, http.NoBody))
}

func (v *visitor) post(path string, form url.Values) *httptest.ResponseRecorder {
	v.t.Helper()
	r := httptest.NewRequestWithContext(v.t.Context(), http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return v.send(r)
}

// follow goes to where an answer leads.
func (v *visitor) follow(w *httptest.ResponseRecorder) *httptest.ResponseRecorder {
	v.t.Helper()
	if w.Code != http.StatusSeeOther {
		v.t.Fatalf("answer %d, want a way to another page:\n%s", w.Code, w.Body)
	}
	return v.get(w.Header().Get("Location"))
}

// want checks the status of a page, and that the page has the texts.
func (v *visitor) want(w *httptest.ResponseRecorder, status int, texts ...string) string {
	v.t.Helper()
	page := w.Body.String()
	if w.Code != status {
		v.t.Errorf("status %d, want %d:\n%s", w.Code, status, content(page))
	}
	for _, text := range texts {
		if !strings.Contains(page, text) {
			v.t.Errorf("the page lacks %q:\n%s", text, content(page))
		}
	}
	return page
}

// content is a page without the frame.
func content(page string) string {
	_, main, _ := strings.Cut(page, "<main")
	main, _, _ = strings.Cut(main, "</main>")
	return main
}

// steady replaces what differs from run to run.
func steady(page string) string {
	page = regexp.MustCompile(`/ui/(many|done)/[A-Za-z0-9_-]{43}`).ReplaceAllString(page, "/ui/$1/HANDLE")
	return regexp.MustCompile(`\.[0-9a-f]{16}\.(js|css|svg)`).ReplaceAllString(page, ".HASH.$1")
}

// wantGolden compares a page with the file of the name.
func wantGolden(t *testing.T, name, page string) {
	t.Helper()
	path := filepath.Join("testdata", name+".html")
	page = steady(page)
	if *update {
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; go test ./api/ui -update writes the pages", err)
	}
	if diff := cmp.Diff(string(want), page); diff != "" {
		t.Errorf("%s (-golden +page; go test ./api/ui -update writes the pages):\n%s", name, diff)
	}
}

func TestPages(t *testing.T) {
	for _, c := range []struct {
		name, token, path string
		prepare           func(*uitest.Backend)
	}{
		{"overview", "admin", "/ui/", nil},
		{"overview-live", "read", "/ui/?part=live", nil},
		{"overview-load", "read", "/ui/?part=load", nil},
		{"overview-away", "read", "/ui/", func(b *uitest.Backend) { b.SetAway("b") }},
		{"timers", "admin", "/ui/timers?limit=4", nil},
		{"timers-filtered", "list", "/ui/timers?key-prefix=user-&tag=TRIAL&limit=2&cursor=c6", nil},
		{"timers-none", "admin", "/ui/timers?key=nobody", nil},
		{"timers-away", "list", "/ui/timers?limit=1", func(b *uitest.Backend) { b.SetAway("b") }},
		{"timer", "both", "/ui/timers/order-48213-reminder", nil},
		{"timer-read-only", "list", "/ui/timers/invoice-2231", nil},
		{"timer-hostile", "admin", "/ui/timers/hostile?opaque=shown", nil},
		{"timer-away", "admin", "/ui/timers/session-expiry-7f3a", func(b *uitest.Backend) { b.SetAway("a") }},
		{"timer-live", "admin", "/ui/timers/invoice-2231?part=live", nil},
		{"timer-delete", "admin", "/ui/timers/order-48213-reminder/delete", nil},
		{"timer-delay", "both", "/ui/timers/order-48213-reminder/delay", nil},
		{"dead", "admin", "/ui/dead", nil},
		{"dead-filtered", "list", "/ui/dead?destination=https%3A%2F%2Fmail.example.net%3A8443", nil},
		{"dead-away", "list", "/ui/dead?key=mail-0001", func(b *uitest.Backend) { b.SetAway("c") }},
		{"letter", "admin", "/ui/dead/a.0041?opaque=shown", nil},
		{"letter-unreadable", "admin", "/ui/dead/a.0042", nil},
		{"letter-fire", "admin", "/ui/dead/a.0003/fire", nil},
		{"destinations", "write", "/ui/destinations", func(b *uitest.Backend) {
			_, _ = b.Pause(t.Context(), "https://paused.example.com:443", time.Now().Add(time.Hour))
		}},
		{"destinations-read", "read", "/ui/destinations", func(b *uitest.Backend) { b.SetAway("b") }},
		{"destination-pause", "write", "/ui/destinations/pause?destination=https%3A%2F%2Forders.example.com%3A443", nil},
		{"cluster", "admin", "/ui/cluster", func(b *uitest.Backend) {
			_, _ = b.Add(t.Context(), "d", "redis://rd:6379", false)
			_, _ = b.Drain(t.Context(), "b", false)
			_, _ = b.Drain(t.Context(), "c", false)
			b.Drained("c")
		}},
		{"cluster-away", "read", "/ui/cluster", func(b *uitest.Backend) { b.SetAway("b") }},
		{"cluster-add", "admin", "/ui/cluster/add", nil},
		{"shard-remove", "admin", "/ui/cluster/b/remove", nil},
		{"help", "read", "/ui/help", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := uitest.New().Sample()
				v := visit(t, uitest.NewRig(t, b, nil), c.token)
				if c.prepare != nil {
					c.prepare(b)
				}
				page := v.get(c.path)
				wantGolden(t, c.name, v.want(page, http.StatusOK))
				wantHeaders(t, page)
				if page.Body.Len() > 256<<10 {
					t.Errorf("the page has %d bytes", page.Body.Len())
				}
				wantHarmless(t, page.Body.String())
			})
		})
	}
}

// wantHeaders checks the headers that every page has.
func wantHeaders(t *testing.T, page *httptest.ResponseRecorder) {
	t.Helper()
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
		"X-Content-Type-Options":  "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "Content-Type": "text/html; charset=utf-8",
	} {
		if got := page.Header().Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// wantHarmless checks that a page has no markup of a timer, no inline script or style, no secret, and no
// characters that do not show.
func wantHarmless(t *testing.T, page string) {
	t.Helper()
	for _, pattern := range []string{`<script>`, `<img src=x`, `\son[a-z]+="`, `\sstyle="`, `<style`, `href="[^/#]`, `password@`, `secret-of-the-shop`, "[\u202a-\u202e\u2066-\u2069\u200b\x00]"} {
		if found := regexp.MustCompile(pattern).FindString(page); found != "" {
			t.Errorf("the page has %q", found)
		}
	}
}

// TestAssets: browsers get the static files of a page, and may keep them.
func TestAssets(t *testing.T) {
	v := visit(t, uitest.NewRig(t, uitest.New(), nil), "read")
	paths := regexp.MustCompile(`/ui/static/[^"]+`).FindAllString(v.get("/ui/").Body.String(), -1)
	if len(paths) < 6 {
		t.Fatalf("the page names %q", paths)
	}
	for _, path := range paths {
		w := v.get(path)
		if body, _ := io.ReadAll(w.Body); w.Code != http.StatusOK || len(body) == 0 || w.Header().Get("Cache-Control") != "public, max-age=31536000, immutable" {
			t.Errorf("%s: %d, %d bytes, %q", path, w.Code, len(body), w.Header().Get("Cache-Control"))
		}
	}
	if w := v.get("/ui/static/htmx.js"); w.Code != http.StatusNotFound {
		t.Errorf("a name without a hash: %d", w.Code)
	}
}
