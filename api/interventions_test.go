package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chronos/api/apitest"
	"chronos/scheduler/listing"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// fakeInterventions notes the requests.
type fakeInterventions struct {
	copies  []listing.Copy
	receipt timer.Receipt
	found   store.ReadResult
	err     error
	asked   []string
	within  time.Duration // until the deadline of the last request
}

var _ Interventions = (*fakeInterventions)(nil)

func (f *fakeInterventions) note(ctx context.Context, asked ...any) {
	f.asked = append(f.asked, fmt.Sprint(asked...))
	if until, is := ctx.Deadline(); is {
		f.within = time.Until(until)
	}
}

func (f *fakeInterventions) Copies(ctx context.Context, id timer.ID) ([]listing.Copy, error) {
	f.note(ctx, "copies of ", id.Key)
	return f.copies, f.err
}

func (f *fakeInterventions) Lookup(ctx context.Context, id timer.ID) (store.ReadResult, error) {
	f.note(ctx, "look up ", id.Key)
	if f.found.Record.ID.Key == "" {
		return store.ReadResult{Record: store.Record{ID: id, Timer: timer.Timer{ReplicationFactor: 1}}, Due: fakeEpoch()}, f.err
	}
	return f.found, f.err
}

func (f *fakeInterventions) Fire(ctx context.Context, id timer.ID, cond timer.Condition) (timer.Receipt, error) {
	f.note(ctx, "fire ", id.Key, " if ", cond)
	return f.receipt, f.err
}

func (f *fakeInterventions) Delay(ctx context.Context, id timer.ID, cond timer.Condition, by time.Duration) (timer.Receipt, error) {
	f.note(ctx, "delay ", id.Key, " by ", by, " if ", cond)
	return f.receipt, f.err
}

func TestCopiesAreShown(t *testing.T) {
	fake := &fakeInterventions{copies: []listing.Copy{
		{
			Shard: "a", Rank: 0, Owner: true, State: listing.CopyLeased, Version: timer.State{Version: 0x123, Rev: 0x124, Seq: 3, Attempt: 1},
			Due: fakeEpoch(), Look: fakeEpoch().Add(time.Second), Lease: "n1\x1b",
		},
		{Shard: "b", Rank: 1, Owner: true, State: listing.CopyTombstone, Version: timer.State{Version: 0x123, Ended: true}, Look: fakeEpoch()},
		{Shard: "c", Rank: 2, State: listing.CopyMissing},
		{Shard: "d", Rank: 3, State: listing.CopyUnreached},
	}}
	admin := NewAdmin(AdminConfig{Interventions: fake, Authorizer: anyone{}})
	const none = `"version":null,"revision":null,"sequence":null,"attempt":null,"due":null,"look":null,"lease":null}`
	const want = `{"copies":[{"shard":"a","rank":0,"owner":true,"state":"leased","version":"0000000000000123","revision":"0000000000000124","sequence":3,"attempt":1,` +
		`"due":"2030-01-31T12:00:00.000Z","look":"2030-01-31T12:00:01.000Z","lease":"n1?"},` +
		`{"shard":"b","rank":1,"owner":true,"state":"tombstone","version":"0000000000000123","revision":null,"sequence":0,"attempt":0,"due":null,"look":"2030-01-31T12:00:00.000Z","lease":null},` +
		`{"shard":"c","rank":2,"owner":false,"state":"missing",` + none + `,{"shard":"d","rank":3,"owner":false,"state":"unreached",` + none + `]}`
	got := askAdmin(t, admin, "GET", "/timers/tea-2-0000000000008421/copies", "")
	if diff := cmp.Diff(want+"\n", string(got.Body)); diff != "" || got.Status != http.StatusOK || got.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v (-want +have):\n%s", got.Status, got.Header, diff)
	}
	if diff := cmp.Diff([]string{"copies of tea"}, fake.asked); diff != "" || fake.within <= 0 || fake.within > 2*time.Second {
		t.Errorf("within %v, asked (-want +have):\n%s", fake.within, diff)
	}
	if got := askAdmin(t, admin, "HEAD", "/timers/tea/copies", ""); got.Status != http.StatusOK {
		t.Errorf("HEAD: %d", got.Status)
	}
}

func TestCopiesAreRefused(t *testing.T) {
	fake := &fakeInterventions{}
	admin := NewAdmin(AdminConfig{Interventions: fake, Authorizer: anyone{}})
	for path, code := range map[string]string{
		"/timers/a%20b/copies": "id-characters", "/timers/batch/copies": "id-reserved", "/timers/k/copies?x=1": "parameter-unknown", "/timers/%ff/copies": "id-characters",
	} {
		apitest.WantProblem(t, askAdmin(t, admin, "GET", path, ""), 400, code, apitest.NoPointer)
	}
	if len(fake.asked) > 0 {
		t.Errorf("refused requests asked for %q", fake.asked)
	}
	for want, err := range map[string]error{
		"404 timer-not-found": timer.ErrNotFound, "503 store-unavailable": fmt.Errorf("%w: hush", timer.ErrUnavailable), "500 internal": errors.New("hush"),
	} {
		fake.err = err
		wantAnswer(t, askAdmin(t, admin, "GET", "/timers/k/copies", ""), want)
	}
}

// wantAnswer checks a refusal, such as "404 timer-not-found".
func wantAnswer(t *testing.T, got apitest.Answer, want string) {
	t.Helper()
	var status int
	var code string
	if _, err := fmt.Sscan(want, &status, &code); err != nil {
		t.Fatal(err)
	}
	apitest.WantProblem(t, got, status, code, apitest.NoPointer)
}

// askIf sends a change with further headers to the admin listener.
func askIf(t *testing.T, a *Admin, method, path string, headers ...string) apitest.Answer {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody)
	req.Host = "127.0.0.1:7254"
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	return answerTo(t, a, req, "")
}

// An export is what is left of a timer, with secrets only if asked for.
func TestATimerIsExported(t *testing.T) {
	recurring := timer.Timer{
		Interval: 30 * time.Second, RepeatFor: 299 * time.Second, ReplicationFactor: 2, ExpiresAfter: time.Minute,
		Callback: timer.Callback{URI: "http://user:hush@h/x", Opaque: "o", Headers: "\r\nX-Api-Key: hush\r\nX-Kind: green", Timeout: time.Second, Retry: timer.Retry{Attempts: 3}},
		Tags:     []timer.Tag{{Type: "CALL", Count: 2}},
	}
	once := timer.Timer{Interval: time.Hour, ReplicationFactor: 1, Callback: timer.Callback{URI: "http://h/x"}}
	found := func(key string, t *timer.Timer, seq int) store.ReadResult {
		return store.ReadResult{Record: store.Record{ID: timer.ID{Key: key, RF: t.ReplicationFactor}, Timer: *t, State: timer.State{Version: 1, Seq: seq}}, Due: fakeEpoch()}
	}
	retrying := found("tea", &recurring, 4)
	retrying.Record.State.Attempt = 2
	retrying.Look, retrying.LookIn, retrying.DueIn, retrying.Due = fakeEpoch().Add(7*time.Second), 5*time.Second, -2*time.Second, fakeEpoch().Add(7*time.Second)
	const rest = `"timeout":1,"retry":{"attempts":3}}},"reliability":{"replication-factor":2},"statistics":{"tag-info":[{"type":"CALL","count":2}]}`
	const timing = `"timing":{"interval":30,"repeat-for":180,"at":"2030-01-31T12:00:00.000Z","expires-after":60}`
	for _, c := range []struct {
		query, want string
		found       store.ReadResult
	}{
		{"", `{"key":"tea",` + timing + `,"callback":{"http":{"uri":"http://***@h/x","opaque":"o","headers":{"X-Api-Key":"***","X-Kind":"green"},` + rest + `,"hidden":true}`, retrying},
		{"?secrets=false", `{"key":"k","timing":{"at":"2030-01-31T12:00:00.000Z"},"callback":{"http":{"uri":"http://h/x","opaque":""}},"reliability":{"replication-factor":1}}`, found("k", &once, 1)},
		{"?secrets=true", `{"key":"tea",` + timing + `,"callback":{"http":{"uri":"http://user:hush@h/x","opaque":"o","headers":{"X-Api-Key":"hush","X-Kind":"green"},` + rest + `}`, retrying},
		{"?secrets=true", `{"key":"k","timing":{"at":"2030-01-31T12:00:00.000Z"},"callback":{"http":{"uri":"http://h/x","opaque":""}},"reliability":{"replication-factor":1}}`, found("k", &once, 1)},
	} {
		admin := NewAdmin(AdminConfig{Interventions: &fakeInterventions{found: c.found}, Authorizer: anyone{}})
		got := askAdmin(t, admin, "GET", "/timers/tea/export"+c.query, "")
		if diff := cmp.Diff(c.want+"\n", string(got.Body)); diff != "" || got.Status != http.StatusOK {
			t.Errorf("%s: status %d (-want +have):\n%s", c.query, got.Status, diff)
		}
	}
	fake := &fakeInterventions{err: timer.ErrNotFound}
	admin := NewAdmin(AdminConfig{Interventions: fake, Authorizer: anyone{}})
	wantAnswer(t, askAdmin(t, admin, "GET", "/timers/k/export", ""), "404 timer-not-found")
	fake.asked = nil
	for path, code := range map[string]string{"k/export?secrets=yes": "flag-malformed", "k/export?secret=true": "parameter-unknown", "a%20b/export?secrets=true": "id-characters"} {
		apitest.WantProblem(t, askAdmin(t, admin, "GET", "/timers/"+path, ""), 400, code, apitest.NoPointer)
	}
	if len(fake.asked) > 0 {
		t.Errorf("refused requests asked for %q", fake.asked)
	}
}

func TestTimersAreFiredAndDelayed(t *testing.T) {
	fake := &fakeInterventions{receipt: timer.Receipt{ID: timer.ID{Key: "tea", RF: 2, Hint: 0x8421}, Version: 0x123, Due: fakeEpoch(), Copies: 1, Unreached: 1, InFlight: true}}
	admin := NewAdmin(AdminConfig{Interventions: fake, Authorizer: anyone{}})
	const want = `{"id":"tea-2-0000000000008421","key":"tea","due":"2030-01-31T12:00:00.000Z","copies":1}`
	const etag = `"0000000000000123"`
	for _, c := range []struct{ path, match, asked string }{
		{"/timers/tea/fire", "", "fire tea if " + fmt.Sprint(timer.Condition{})},
		{"/timers/tea-2-0000000000008421/fire", etag, "fire tea if " + fmt.Sprint(timer.Condition{OneOf: []timer.Version{0x123}})},
		{"/timers/tea/fire", "*", "fire tea if " + fmt.Sprint(timer.Condition{Exists: true})},
		{"/timers/tea/delay?by=30s", "", "delay tea by 30s if " + fmt.Sprint(timer.Condition{})},
		{"/timers/tea/delay?by=1h30m", etag, "delay tea by 1h30m0s if " + fmt.Sprint(timer.Condition{OneOf: []timer.Version{0x123}})},
		{"/timers/tea/delay?by=876000h", "", "delay tea by 876000h0m0s if " + fmt.Sprint(timer.Condition{})},
		{"/timers/tea/delay?by=1ns", "", "delay tea by 1ms if " + fmt.Sprint(timer.Condition{})},
		{"/timers/tea/delay?by=1.0001s", "", "delay tea by 1.001s if " + fmt.Sprint(timer.Condition{})},
	} {
		fake.asked = nil
		var headers []string
		if c.match != "" {
			headers = []string{"If-Match", c.match}
		}
		got := askIf(t, admin, "POST", c.path, headers...)
		if got.Status != http.StatusOK || strings.TrimSpace(string(got.Body)) != want || got.Header.Get("ETag") != etag || got.Header.Get("X-Chronos-Unreached") != "1" ||
			got.Header.Get("X-Chronos-In-Flight") != "true" || got.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %v %s", c.path, got.Status, got.Header, got.Body)
		}
		if diff := cmp.Diff([]string{c.asked}, fake.asked); diff != "" || fake.within <= 0 || fake.within > 2*time.Second {
			t.Errorf("%s: within %v, asked (-want +have):\n%s", c.path, fake.within, diff)
		}
	}
	fake.receipt = timer.Receipt{ID: timer.ID{Key: "tea", RF: 1}, Version: 1, Due: fakeEpoch(), Copies: 1}
	if got := askIf(t, admin, "POST", "/timers/tea/fire"); got.Header.Get("X-Chronos-Unreached")+got.Header.Get("X-Chronos-In-Flight") != "" {
		t.Errorf("have %v", got.Header)
	}
}

func TestFiringAndDelayingAreRefused(t *testing.T) {
	fake := &fakeInterventions{}
	admin := NewAdmin(AdminConfig{Interventions: fake, Authorizer: anyone{}})
	for path, code := range map[string]string{
		"/timers/tea/delay": "by-missing", "/timers/tea/delay?by=": "parameter-empty", "/timers/tea/delay?by=30": "by-malformed", "/timers/tea/delay?by=a": "by-malformed",
		"/timers/tea/delay?by=1d": "by-malformed", "/timers/tea/delay?by=99999999999999999999s": "by-malformed", "/timers/tea/delay?by=0s": "by-range", "/timers/tea/delay?by=-1s": "by-range",
		"/timers/tea/delay?by=876001h": "by-range", "/timers/tea/delay?by=1s&by=2s": "parameter-duplicate", "/timers/tea/delay?by=1s&at=x": "parameter-unknown",
		"/timers/tea/fire?by=1s": "parameter-unknown", "/timers/a%20b/fire": "id-characters", "/timers/references/fire": "id-reserved", "/timers/references/delay?by=1s": "id-reserved",
	} {
		apitest.WantProblem(t, askIf(t, admin, "POST", path), 400, code, apitest.NoPointer)
	}
	for _, path := range []string{"/timers/tea/fire", "/timers/tea/delay?by=1s"} {
		apitest.WantProblem(t, askIf(t, admin, "POST", path, "If-None-Match", "*"), 400, "precondition-unsupported", apitest.NoPointer)
		apitest.WantProblem(t, askIf(t, admin, "POST", path, "If-Match", "123"), 400, "precondition-malformed", apitest.NoPointer)
		apitest.WantProblem(t, askIf(t, admin, "POST", path, "If-Match", `*`, "If-Match", `"0000000000000123"`), 400, "precondition-malformed", apitest.NoPointer)
		wantAnswer(t, askIf(t, admin, "GET", path), "405 method-not-allowed")
		req := httptest.NewRequestWithContext(t.Context(), "POST", path, strings.NewReader("by=1s"))
		req.Host = "localhost"
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		wantAnswer(t, answerTo(t, admin, req, "by=1s"), "415 content-type")
	}
	if len(fake.asked) > 0 {
		t.Errorf("refused requests asked for %q", fake.asked)
	}
	for want, err := range map[string]error{
		"404 timer-not-found": timer.ErrNotFound, "409 overtaken": timer.ErrOvertaken, "409 firing": fmt.Errorf("fire: %w", timer.ErrFiring),
		"412 precondition-failed": &timer.ConditionError{Present: 0x124}, "503 store-unavailable": fmt.Errorf("%w: hush", timer.ErrUnavailable), "503 condition-undecided": timer.ErrUndecided,
		"503 upgrade-under-way": timer.ErrUpgrading, "500 internal": errors.New("hush"),
	} {
		fake.err = err
		for _, path := range []string{"/timers/tea/fire", "/timers/tea/delay?by=1s"} {
			got := askIf(t, admin, "POST", path)
			wantAnswer(t, got, want)
			if strings.HasPrefix(want, "412") != (got.Header.Get("ETag") == `"0000000000000124"`) {
				t.Errorf("%s: %v", want, got.Header)
			}
		}
	}
	fake.err = timer.Invalid("/timing", "by-range", "the next pop would be due too late; give a shorter delay")
	wantAnswer(t, askIf(t, admin, "POST", "/timers/tea/delay?by=1s"), "400 by-range")
}
