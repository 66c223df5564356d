package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chronos/api/tokens"
	"chronos/scheduler/destinations"
	"chronos/scheduler/timer"
)

// fakeDestinations notes the requests.
type fakeDestinations struct {
	asked []string
	err   error
}

var _ Destinations = (*fakeDestinations)(nil)

func (*fakeDestinations) Destinations() []destinations.View {
	return []destinations.View{
		{Destination: "https://api.example.com:443", Limit: destinations.Limit{Rate: 0.5, Burst: 1, Concurrency: 20}, InFlight: 3},
		{Destination: "https://busy.example.com:443", InFlight: 9},
		{Destination: "https://down.example.com:443", Until: time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)},
	}
}

func (f *fakeDestinations) Pause(_ context.Context, destination string, until time.Time) (destinations.Pausing, error) {
	f.asked = append(f.asked, fmt.Sprint("pause ", destination, " ", until.Format(time.RFC3339Nano)))
	return destinations.Pausing{Destination: destination + ":443", Until: until, Untold: []string{"b"}}, f.err
}

func (f *fakeDestinations) Resume(_ context.Context, destination string) (destinations.Pausing, error) {
	f.asked = append(f.asked, "resume "+destination)
	return destinations.Pausing{Destination: destination + ":443"}, f.err
}

func TestDestinationsAreShownPausedAndResumed(t *testing.T) {
	fake := &fakeDestinations{}
	admin := NewAdmin(AdminConfig{Destinations: fake, Authorizer: anyone{}})
	for _, c := range []struct{ request, body, asked, want string }{
		{"GET /destinations", "", "", `{"destinations":[` +
			`{"destination":"https://api.example.com:443","limit":{"rate":0.5,"burst":1,"concurrency":20},"in-flight":3},` +
			`{"destination":"https://busy.example.com:443","in-flight":9},` +
			`{"destination":"https://down.example.com:443","paused-until":"2030-01-31T12:00:00Z","in-flight":0}]}`},
		{"POST /destinations/pause", `{"destination": "https://api.example.com", "until": "2030-01-31T13:00:00+01:00"}`,
			"pause https://api.example.com 2030-01-31T12:00:00Z", `{"destination":"https://api.example.com:443","until":"2030-01-31T12:00:00Z","untold":["b"]}`},
		{"POST /destinations/resume", `{"destination": "https://api.example.com"}`,
			"resume https://api.example.com", `{"destination":"https://api.example.com:443","until":null,"untold":[]}`},
	} {
		method, path, _ := strings.Cut(c.request, " ")
		fake.asked = nil
		have := askAdmin(t, admin, method, path, "", c.body)
		if have.Status != http.StatusOK || strings.TrimSpace(string(have.Body)) != c.want || have.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %s, want %s", c.request, have.Status, have.Body, c.want)
		}
		if asked := strings.Join(fake.asked, ", "); asked != c.asked {
			t.Errorf("%s asked for %q, want %q", c.request, asked, c.asked)
		}
	}
}

// TestPausesAreRefused: whatever stands in a body, the answer is a problem with a code, and shows
// nothing of the body.
func TestPausesAreRefused(t *testing.T) {
	fake := &fakeDestinations{}
	admin := NewAdmin(AdminConfig{Destinations: fake, Authorizer: anyone{}})
	const until = `, "until": "2030-01-31T12:00:00Z"}`
	for _, c := range []struct{ path, body, code string }{
		{"pause", "", "body-missing"},
		{"pause", "[]", "body-not-object"},
		{"pause", "hush", "body-not-object"},
		{"pause", `{"destination"`, "body-syntax"},
		{"pause", `{"destination": "hush"`, "body-syntax"},
		{"pause", `{"destination": "hush"` + until + `x`, "body-trailing"},
		{"pause", `{}`, "destination-missing"},
		{"pause", `{"destination": null` + until, "destination-malformed"},
		{"pause", `{"destination": ["hush"]` + until, "destination-malformed"},
		{"pause", `{"destination": "` + "\xff" + `"` + until, "string-utf8"},
		{"pause", `{"destination": "\ud800"` + until, "string-surrogate"},
		{"pause", `{"destination": "a", "destination": "b"` + until, "member-duplicate"},
		{"pause", `{"destination": "a", "extra": 1` + until, "member-unknown"},
		{"pause", `{"destination": "a", "Until": 1` + until, "member-unknown"},
		{"pause", `{"destination": "a", "id": "x"` + until, "member-unknown"},
		{"pause", `{"destination": "a"}`, "until-missing"},
		{"pause", `{"destination": "a", "until": null}`, "until-malformed"},
		{"pause", `{"destination": "a", "until": 3600}`, "until-malformed"},
		{"pause", `{"destination": "a", "until": "hush"}`, "until-malformed"},
		{"pause", `{"destination": "a", "until": "2030-01-31"}`, "until-malformed"},
		{"pause", `{"destination": "a", "until": "0001-01-01T00:00:00Z"}`, "until-malformed"},
		{"pause", `{"destination": "` + strings.Repeat("a", maxPauseBody) + `"` + until, "body-too-large"},
		{"pause", `{"destination": ` + strings.Repeat("[", 100), "destination-malformed"},
		{"pause", `{"x": ` + strings.Repeat("[", 100), "body-depth"},
		{"resume", "", "body-missing"},
		{"resume", "null", "body-not-object"},
		{"resume", `{}`, "destination-missing"},
		{"resume", `{"destination": "a"` + until, "member-unknown"},
	} {
		have := askAdmin(t, admin, "POST", "/destinations/"+c.path, "", c.body)
		if have.Status < 400 || have.Status >= 500 || !strings.Contains(string(have.Body), `"code":"`+c.code+`"`) || strings.Contains(string(have.Body), "hush") {
			t.Errorf("%s %q: %d %s, want %s", c.path, c.body, have.Status, have.Body, c.code)
		}
	}
	if len(fake.asked) > 0 {
		t.Errorf("refused requests asked for %q", fake.asked)
	}
	for want, err := range map[string]error{
		"409 pauses-full": destinations.ErrFull, "409 overtaken": timer.ErrOvertaken, "503 store-unavailable": fmt.Errorf("%w: hush", timer.ErrUnavailable),
		"400 until-range": timer.Invalid("/until", "until-range", "too late"), "500 internal": errors.New("hush"),
	} {
		fake.err = err
		for path, body := range map[string]string{"pause": `{"destination": "a"` + until, "resume": `{"destination": "a"}`} {
			have := askAdmin(t, admin, "POST", "/destinations/"+path, "", body)
			status, code, _ := strings.Cut(want, " ")
			if fmt.Sprint(have.Status) != status || !strings.Contains(string(have.Body), `"code":"`+code+`"`) || strings.Contains(string(have.Body), "hush") {
				t.Errorf("%s with %v: %d %s, want %s", path, err, have.Status, have.Body, want)
			}
		}
	}
}

func TestRolesForDestinations(t *testing.T) {
	s, byRole := guarded(t, &fakeTimers{})
	var log bytes.Buffer
	admin := NewAdmin(AdminConfig{Authorizer: s.authorizer, OpenReads: true, Destinations: &fakeDestinations{}, Log: slog.New(slog.NewTextHandler(&log, nil))})
	const destination, until = `{"destination": "https://api.example.com"`, `, "until": "2030-01-31T12:00:00Z"}`
	for _, c := range []struct {
		request, body string
		least         tokens.Role
		want          string
	}{
		{"GET /destinations", "", tokens.Read, ""},
		{"POST /destinations/pause", destination + until, tokens.Write, "path=/destinations/pause destination=https://api.example.com:443 until=2030-01-31T12:00:00Z status=200"},
		{"POST /destinations/pause", `{`, tokens.Write, "path=/destinations/pause status=400"},
		{"POST /destinations/resume", destination + `}`, tokens.Write, "path=/destinations/resume destination=https://api.example.com:443 status=200"},
	} {
		method, path, _ := strings.Cut(c.request, " ")
		for _, role := range []tokens.Role{0, tokens.Read, tokens.Write, tokens.Admin} {
			have := askAdmin(t, admin, method, path, byRole[role], c.body)
			var want []string
			refused := have.Status == http.StatusUnauthorized || have.Status == http.StatusForbidden
			if role >= c.least && c.want != "" {
				want = []string{`level=INFO msg="admin change" method=POST ` + c.want + " by=name-" + role.String() + " address=192.0.2.1:1234"}
			}
			if diff := cmp.Diff(want, trimmed(lines(&log))); diff != "" || refused != (role < c.least) {
				t.Errorf("%s by %v: %d (-want +have):\n%s", c.request, role, have.Status, diff)
			}
		}
	}
}

func trimmed(all []string) (out []string) {
	for _, line := range all {
		out = append(out, strings.TrimSpace(line))
	}
	return out
}
