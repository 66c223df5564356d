package ui_test

import (
	"bytes"
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chronos/api/ui/uitest"
)

// rigged is a visitor with the admin's token, and the log.
func rigged(t *testing.T, b *uitest.Backend) (*visitor, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	plainTime := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	v := visit(t, uitest.NewRig(t, b, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: plainTime}))), "admin")
	log.Reset()
	return v, &log
}

// formOf reads the form of a page that a browser would send.
func formOf(t *testing.T, page, action string) url.Values {
	t.Helper()
	_, rest, found := strings.Cut(page, `action="`+action+`"`)
	if !found {
		t.Fatalf("the page has no form for %s:\n%s", action, page)
	}
	form, _, _ := strings.Cut(rest, "</form>")
	values := url.Values{}
	for _, input := range regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)"`).FindAllStringSubmatch(form, -1) {
		values.Set(input[1], html.UnescapeString(input[2]))
	}
	return values
}

func with(form url.Values, pairs ...string) url.Values {
	for i := 0; i+1 < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	return form
}

func wantChanges(t *testing.T, b *uitest.Backend, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, b.Changes()); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

// TestChanges walks through each change of one thing: the question, the confirmation, the outcome, the log.
func TestChanges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		path    string
		fill    []string
		asks    string
		outcome string
		change  string
		log     string
	}{
		{"/ui/timers/order-48213-reminder/delete", nil, "Delete this timer?", "The timer is deleted", "delete order-48213-reminder", ""},
		{"/ui/timers/order-48213-reminder/fire", nil, "Fire this timer now?", "The timer fires", "fire order-48213-reminder", ""},
		{"/ui/timers/order-48213-reminder/delay", []string{"by", "1h30m"}, "Delay this timer?", "come 1 h 30 min later", "delay order-48213-reminder", "delay=1h30m0s "},
		{"/ui/dead/a.0003/fire", nil, "Fire this dead letter again?", "The dead letter is fired again", "fire letter a.0003", ""},
		{"/ui/dead/a.0003/delete", nil, "Delete this dead letter?", "The dead letter is deleted", "delete letter a.0003", ""},
		{"/ui/destinations/pause?destination=http%3A%2F%2Fa.example%3A80", []string{"for", "15m"}, "Pause this destination?", "The destination is paused", "pause http://a.example:80", "destination=http://a.example:80 until="},
		{"/ui/destinations/resume?destination=http%3A%2F%2Fa.example%3A80", nil, "Resume this destination?", "The destination is resumed", "resume http://a.example:80", "destination=http://a.example:80 "},
		{"/ui/cluster/add", []string{"name", "d", "url", "redis://:secret@rd:6379"}, "Add a shard?", "The shard is added", "add d redis://:secret@rd:6379", "shard=d "},
		{"/ui/cluster/b/drain", nil, "Drain this shard?", "The shard is being drained", "drain b", "shard=b "},
		{"/ui/cluster/b/remove", []string{"force", "true"}, "timers whose copies are on this shard alone are lost", "The shard is removed", "remove b", "shard=b force=true "},
	} {
		b := uitest.New().Sample()
		v, log := rigged(t, b)
		page := v.want(v.get(c.path), http.StatusOK, c.asks, "Cancel")
		wantChanges(t, b)
		action, _, _ := strings.Cut(c.path, "?")
		w := v.post(action, with(formOf(t, page, action), c.fill...))
		v.want(v.follow(w), http.StatusOK, c.outcome)
		wantChanges(t, b, c.change)
		want := "level=INFO msg=\"admin change\" method=POST path=" + action + " " + c.log
		if got := log.String(); !strings.HasPrefix(got, want) || !strings.HasSuffix(got, " status=200 by=admin address=192.0.2.1:1234\n") || strings.Count(got, "\n") != 1 {
			t.Errorf("%s: the log has\n%swant\n%s… status=200 by=admin …", c.path, got, want)
		}
		if strings.Contains(log.String(), "secret") {
			t.Errorf("a secret is logged: %s", log)
		}
		before := w.Header().Get("Location")
		v.want(v.get(before), http.StatusOK, c.outcome) // a page that is loaded again changes nothing
		wantChanges(t, b, c.change)
	}
}

// TestAVersionThatWasNotShownIsKept: a change is for the version that the operator has seen.
func TestAVersionThatWasNotShownIsKept(t *testing.T) {
	t.Parallel()
	b := uitest.New().Sample()
	v, log := rigged(t, b)
	for _, action := range []string{"delete", "fire", "delay"} {
		w := v.post("/ui/timers/order-48213-reminder/"+action, url.Values{"version": {"00000000000000ff"}, "by": {"1m"}})
		v.want(w, http.StatusConflict, "The timer has changed since the page was made", "overtaken")
	}
	wantChanges(t, b)
	if n := strings.Count(log.String(), "status=409 by=admin"); n != 3 {
		t.Errorf("%d refused changes are logged, want 3:\n%s", n, log)
	}
}

func TestRefusedChanges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		path   string
		form   url.Values
		status int
		text   string
	}{
		{"/ui/timers/order-48213-reminder/delete", nil, http.StatusBadRequest, "lacks the version"},
		{"/ui/timers/order-48213-reminder/explode", url.Values{"version": {"0000000000000001"}}, http.StatusNotFound, "no such action"},
		{"/ui/timers/order-48213-reminder/delay", url.Values{"version": {"0000000000000001"}, "by": {"soon"}}, http.StatusBadRequest, "he delay is not a length of time"},
		{"/ui/timers/order-48213-reminder/delay", url.Values{"version": {"0000000000000001"}, "by": {"-5m"}}, http.StatusBadRequest, "he delay is not a length of time"},
		{"/ui/timers/nobody/delete", url.Values{"version": {"0000000000000001"}}, http.StatusNotFound, "There is no such timer"},
		{"/ui/timers/a%20b/delete", url.Values{"version": {"0000000000000001"}}, http.StatusBadRequest, "A-Z a-z 0-9"},
		{"/ui/dead/nobody/fire", nil, http.StatusNotFound, "There is no such dead letter"},
		{"/ui/dead/a.0042/fire", nil, http.StatusConflict, "nreadable"},
		{"/ui/destinations/pause", url.Values{"destination": {"http://a.example:80"}, "for": {"-1m"}}, http.StatusBadRequest, "he length of the pause"},
		{"/ui/destinations/pause", url.Values{"destination": {"nonsense"}, "for": {"1m"}}, http.StatusBadRequest, "not scheme, host and port"},
		{"/ui/cluster/add", url.Values{"name": {" "}}, http.StatusBadRequest, "he shard has no name"},
		{"/ui/cluster/add", url.Values{"name": {"a"}, "url": {"redis://x"}}, http.StatusConflict, "There is a shard of this name already"},
		{"/ui/cluster/a/remove", nil, http.StatusConflict, "The shard still has timers"},
		{"/ui/timers/selected", url.Values{"action": {"delete"}}, http.StatusBadRequest, "o timer is selected"},
		{"/ui/timers/selected", url.Values{"action": {"delete"}, "timer": {"x@y"}}, http.StatusBadRequest, "lacks the version of a timer"},
		{"/ui/timers/selected", url.Values{"action": {"explode"}, "timer": {"x@0000000000000001"}}, http.StatusNotFound, "no such action"},
		{"/ui/timers/matching", url.Values{"action": {"delete"}}, http.StatusBadRequest, "all timers of the cluster are meant"},
		{"/ui/timers/matching", url.Values{"action": {"delete"}, "state": {"asleep"}}, http.StatusBadRequest, "none of waiting, leased and retrying"},
		{"/ui/timers/matching", url.Values{"action": {"delay"}, "key": {"a"}}, http.StatusBadRequest, "he delay is not a length of time"},
		{"/ui/dead/matching", url.Values{"action": {"delete"}}, http.StatusBadRequest, "all dead letters are meant"},
		{"/ui/many/nobody/do", url.Values{"count": {"1"}}, http.StatusNotFound, "no longer remembered"},
	} {
		b := uitest.New().Sample()
		v, _ := rigged(t, b)
		v.want(v.post(c.path, c.form), c.status, c.text, "code <code>")
		wantChanges(t, b)
	}
}

// TestAddressesThatAreRefused: every fault in an address is explained.
func TestAddressesThatAreRefused(t *testing.T) {
	t.Parallel()
	v, _ := rigged(t, uitest.New().Sample())
	for path, want := range map[string]string{
		"/ui/timers?text=ab":                                    "less than 3 characters",
		"/ui/timers?text=%C3%A4%C3%A4":                          "less than 3 characters",
		"/ui/timers?state=asleep":                               "none of waiting, leased and retrying",
		"/ui/timers?due-after=soon":                             "a time is written as",
		"/ui/timers?due-after=2027-01-02&due-before=2027-01-01": "due after is not earlier than due before",
		"/ui/timers?limit=101":                                  "from 1 to 100",
		"/ui/timers?limit=0":                                    "from 1 to 100",
		"/ui/timers?cursor=nonsense":                            "ursor",
		"/ui/dead?since=soon":                                   "a time is written as",
		"/ui/dead?cursor=nonsense":                              "the cursor is none",
		"/ui/timers/" + strings.Repeat("x", 200):                "1 to 128 characters",
	} {
		if page := v.get(path); page.Code != http.StatusBadRequest || !strings.Contains(strings.ToLower(page.Body.String()), strings.ToLower(want)) {
			t.Errorf("%s: %d, want 400 and %q:\n%s", path, page.Code, want, page.Body)
		}
	}
	for path, want := range map[string]string{
		"/ui/timers/nobody": "There is no such timer", "/ui/dead/nobody": "There is no such dead letter", "/ui/nothing": "no such page", "/ui/done/nobody": "no longer remembered",
		"/ui/cluster/nobody/drain": "no shard of this name", "/ui/timers/hostile/explode": "no such action",
	} {
		v.want(v.get(path), http.StatusNotFound, want)
	}
}

func TestFormsAreChecked(t *testing.T) {
	t.Parallel()
	b := uitest.New().Sample()
	v, _ := rigged(t, b)
	send := func(kind, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/ui/cluster/a/drain", strings.NewReader(body))
		if kind != "" {
			r.Header.Set("Content-Type", kind)
		}
		return v.send(r)
	}
	v.want(send("application/json", `{"force":true}`), http.StatusUnsupportedMediaType, "come from its own forms")
	v.want(send("", "force=true"), http.StatusUnsupportedMediaType, "come from its own forms")
	v.want(send("multipart/form-data; boundary=x", "--x--"), http.StatusUnsupportedMediaType, "come from its own forms")
	v.want(send("application/x-www-form-urlencoded", "force=%zz"), http.StatusBadRequest, "can&#39;t be read")
	v.want(send("application/x-www-form-urlencoded", strings.Repeat("x", 65<<10)), http.StatusRequestEntityTooLarge, "over 64 KiB")
	wantChanges(t, b)
}
