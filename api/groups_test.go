package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chronos/api/apitest"
	"chronos/api/tokens"
	"chronos/scheduler/deadletter"
	"chronos/scheduler/timer"
)

// fakeGroups answers with what the test says.
type fakeGroups struct {
	groups deadletter.Groups
	err    error
	asked  int
}

var _ LetterGroups = (*fakeGroups)(nil)

func (f *fakeGroups) Groups(context.Context) (deadletter.Groups, error) {
	f.asked++
	return f.groups, f.err
}

func TestGroupsAreShown(t *testing.T) {
	fake := &fakeGroups{groups: deadletter.Groups{
		Groups: []deadletter.Group{
			{Destination: "https://api.example.com:443", Reason: "status 503", Count: 19_000, Oldest: fakeEpoch(), Newest: fakeEpoch().Add(time.Hour)},
			{Reason: "\x1b[2J\u202e dial http://u:hush@h", Count: 1, Oldest: fakeEpoch(), Newest: fakeEpoch()},
		},
		LookedAt: 20_000, Unreached: []string{"b"},
	}}
	admin := NewAdmin(AdminConfig{Letters: &fakeLetters{}, Groups: fake, Authorizer: anyone{}})
	const want = `{"groups":[{"destination":"https://api.example.com:443","reason":"status 503","count":19000,"oldest":"2030-01-31T12:00:00.000Z","newest":"2030-01-31T13:00:00.000Z"},` +
		`{"destination":null,"reason":"?[2J? dial http://***@h","count":1,"oldest":"2030-01-31T12:00:00.000Z","newest":"2030-01-31T12:00:00.000Z"}],"looked_at":20000,"complete":false,"unreached":["b"]}`
	got := askAdmin(t, admin, "GET", "/dead/groups", "")
	if diff := cmp.Diff(want+"\n", string(got.Body)); diff != "" || got.Status != http.StatusOK || got.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v (-want +have):\n%s", got.Status, got.Header, diff)
	}
	fake.groups = deadletter.Groups{Complete: true}
	if got := askAdmin(t, admin, "GET", "/dead/groups", ""); string(got.Body) != `{"groups":[],"looked_at":0,"complete":true,"unreached":[]}`+"\n" {
		t.Errorf("of nothing: %s", got.Body)
	}
	asked := fake.asked
	apitest.WantProblem(t, askAdmin(t, admin, "GET", "/dead/groups?reason=x", ""), 400, "parameter-unknown", apitest.NoPointer)
	if fake.asked != asked {
		t.Error("a refused request was carried out")
	}
	for want, err := range map[string]error{"503 store-unavailable": fmt.Errorf("%w: hush", timer.ErrUnavailable), "500 internal": errors.New("hush")} {
		fake.err = err
		wantAnswer(t, askAdmin(t, admin, "GET", "/dead/groups", ""), want)
	}
}

// Which role may do what of the requests that look at timers of all, and change single timers.
func TestRolesForInterventions(t *testing.T) {
	s, byRole := guarded(t, &fakeTimers{})
	admin := NewAdmin(AdminConfig{Authorizer: s.authorizer, OpenReads: true, Groups: &fakeGroups{}, Interventions: &fakeInterventions{receipt: timer.Receipt{ID: timer.ID{Key: "k", RF: 1}, Due: fakeEpoch()}}})
	for _, c := range []struct {
		method, path string
		need         tokens.Role
	}{
		{"GET", "/dead/groups", tokens.List}, {"HEAD", "/dead/groups", tokens.List}, {"GET", "/timers/k/copies", tokens.List}, {"GET", "/timers/k/export", tokens.List}, {"GET", "/timers/k/export?secrets=false", tokens.List}, {"GET", "/timers/k/export?secrets=true", tokens.Admin},
		{"POST", "/timers/k/fire", tokens.Write}, {"POST", "/timers/k/delay?by=1s", tokens.Write},
	} {
		for _, role := range []tokens.Role{0, tokens.Read, tokens.Write, tokens.List, tokens.Admin} {
			status := http.StatusOK
			switch {
			case role == 0:
				status = http.StatusUnauthorized
			case !role.Allows(c.need):
				status = http.StatusForbidden
			}
			if got := askAdmin(t, admin, c.method, c.path, byRole[role]); got.Status != status {
				t.Errorf("%s %s as %s: %d %s, want %d", c.method, c.path, role, got.Status, got.Body, status)
			}
		}
	}
}
