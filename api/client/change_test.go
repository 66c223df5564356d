package client_test

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chronos/api/client"
)

func TestBodiesOfChanges(t *testing.T) {
	for want, change := range map[string]client.Change{
		`{}`:                                    {},
		`{"timing":{}}`:                         {Restart: true},
		`{"timing":{"at":null,"interval":1.5}}`: {Interval: new(1500 * time.Millisecond)},
		`{"timing":{"at":null,"interval":0,"repeat-for":null}}`:                                       {Interval: new(time.Duration(0)), RepeatFor: new(time.Duration(0)), Restart: true},
		`{"timing":{"expires-after":60,"repeat-for":3600}}`:                                           {RepeatFor: new(time.Hour), ExpiresAfter: new(time.Minute)},
		`{"timing":{"at":"2030-01-31T12:00:00Z","interval":null,"repeat-for":null}}`:                  {At: new(epoch.In(time.FixedZone("", 3600)))},
		`{"callback":{"http":{"uri":"http://a/?b=1\u0026c"}}}`:                                        {URI: new("http://a/?b=1&c")},
		`{"callback":{"http":{"method":null,"opaque":null}}}`:                                         {Opaque: new(""), Method: new("")},
		`{"callback":{"http":{"headers":{"A":"","B":null}}}}`:                                         {Headers: map[string]*string{"A": new(""), "B": nil}},
		`{"callback":{"http":{"timeout":2.5}}}`:                                                       {Timeout: new(2500 * time.Millisecond)},
		`{"callback":{"http":{"retry":{"attempts":3,"factor":1.5,"first":null,"longest":9}}}}`:        {Retry: &client.Retry{Attempts: 3, Factor: 1.5, Longest: 9 * time.Second}},
		`{"callback":{"http":{"retry":{"attempts":null,"factor":null,"first":null,"longest":null}}}}`: {Retry: &client.Retry{}},
		`{"statistics":{"tag-info":[]}}`:                                                              {Tags: []client.Tag{}},
		`{"statistics":{"tag-info":[{"type":"CALL"},{"type":"REG","count":2}]}}`:                      {Tags: []client.Tag{{Type: "CALL"}, {Type: "REG", Count: 2}}},
		`{"callback":{"http":{"method":"GET","opaque":null}},"timing":{"at":null,"interval":1}}`:      {Interval: new(time.Second), Opaque: new(""), Method: new("GET")},
	} {
		c, s := scripted(t, []step{{status: 200, body: someReceipt}})
		if _, err := c.Patch(t.Context(), "k", change); err != nil {
			t.Fatalf("%s: %v", want, err)
		}
		sent := s.sent[0]
		body, err := io.ReadAll(sent.Body)
		if err != nil || string(body) != want || sent.Method != http.MethodPatch || sent.URL.Path != "/prefix/timers/k" {
			t.Errorf("%v: %s %s %s, want %s", err, sent.Method, sent.URL.Path, body, want)
		}
		if kind, prefer := sent.Header.Get("Content-Type"), sent.Header.Get("Prefer"); kind != "application/merge-patch+json" || prefer != "handling=strict" {
			t.Errorf("Content-Type %q, Prefer %q", kind, prefer)
		}
	}
}

func TestChangesThatCantBeSent(t *testing.T) {
	c, _ := scripted(t, nil)
	for name, change := range map[string]client.Change{
		"opaque not UTF-8": {Opaque: new("\xff")}, "uri not UTF-8": {URI: new("http://a/\xff")}, "tag not UTF-8": {Tags: []client.Tag{{Type: "\xff"}}},
		"header not UTF-8": {Headers: map[string]*string{"A": new("\xff")}}, "removed header not UTF-8": {Headers: map[string]*string{"\xff": nil}},
		"both times": {Interval: new(time.Second), At: new(epoch)}, "no time": {At: new(time.Time{})},
	} {
		if _, err := c.Patch(t.Context(), "k", change); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for _, id := range []string{"", ".", ".."} {
		if _, err := c.Patch(t.Context(), id, client.Change{}); err == nil {
			t.Errorf("id %q passes", id)
		}
	}
	for _, cond := range []client.Condition{{}, {Absent: true}, {ETag: `"1"`, Exists: true}} {
		if _, err := c.PatchIf(t.Context(), "k", cond, client.Change{}); err == nil {
			t.Errorf("condition %+v passes", cond)
		}
	}
}

func TestPatch(t *testing.T) {
	c, _ := connect(t, newMemory())
	ctx := t.Context()
	want := client.Timer{
		Interval: time.Minute, RepeatFor: time.Hour, ExpiresAfter: time.Minute, URI: "http://a/b", Opaque: "o", Method: "PUT", ReplicationFactor: 2,
		Headers: map[string]string{"X-A": "1", "X-B": "2"}, Timeout: 3 * time.Second, Retry: client.Retry{Attempts: 3, First: time.Second}, Tags: []client.Tag{{Type: "CALL", Count: 1}},
	}
	made, err := c.Replace(ctx, "tea", want)
	if err != nil {
		t.Fatal(err)
	}
	at := epoch.Add(time.Hour)
	for name, tc := range map[string]struct {
		change client.Change
		edit   func(*client.Timer)
	}{
		"nothing":  {client.Change{}, func(*client.Timer) {}},
		"callback": {client.Change{URI: new("https://c/d"), Opaque: new("new"), Timeout: new(time.Duration(0))}, func(t *client.Timer) { t.URI, t.Opaque, t.Timeout = "https://c/d", "new", 0 }},
		"headers": {
			client.Change{Headers: map[string]*string{"x-a": nil, "X-C": new("3"), "X-Z": nil}},
			func(t *client.Timer) { t.Headers = map[string]string{"X-B": "2", "X-C": "3"} },
		},
		"retry": {client.Change{Retry: &client.Retry{Factor: 1.5}}, func(t *client.Timer) { t.Retry = client.Retry{Factor: 1.5} }},
		"tags":  {client.Change{Tags: []client.Tag{}}, func(t *client.Timer) { t.Tags = nil }},
		"at":    {client.Change{At: &at, ExpiresAfter: new(time.Duration(0))}, func(t *client.Timer) { t.At, t.Interval, t.RepeatFor, t.ExpiresAfter = at, 0, 0, 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			receipt, err := c.Replace(ctx, "tea", want)
			if err != nil {
				t.Fatal(err)
			}
			changed := want
			tc.edit(&changed)
			patched, err := c.PatchIf(ctx, receipt.ID, client.Condition{ETag: receipt.ETag}, tc.change)
			if err != nil || patched.ID != made.ID || patched.ETag == receipt.ETag || !patched.InFlight || patched.Unreached != 1 {
				t.Errorf("have %+v, %v", patched, err)
			}
			found, err := c.Lookup(ctx, "tea")
			if diff := cmp.Diff(changed, found.Timer); err != nil || diff != "" || found.ETag != patched.ETag {
				t.Errorf("%v, ETag %s, timer (-want +have):\n%s", err, found.ETag, diff)
			}
			if _, err := c.PatchIf(ctx, "tea", client.Condition{ETag: receipt.ETag}, tc.change); !errors.Is(err, client.ErrConditionFailed) {
				t.Errorf("PatchIf of the earlier version: %v", err)
			}
		})
	}
	if _, err := c.Patch(ctx, "none", client.Change{}); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("Patch of no timer: %v", err)
	}
	if _, err := c.PatchIf(ctx, "none", client.Condition{Exists: true}, client.Change{}); !errors.Is(err, client.ErrConditionFailed) {
		t.Errorf("PatchIf of no timer: %v", err)
	}
	_, err = c.Patch(ctx, "tea", client.Change{Timeout: new(time.Hour)})
	if problem, ok := errors.AsType[*client.Problem](err); !ok || problem.Code != "timeout-range" || problem.Pointer != "/callback/http/timeout" {
		t.Errorf("Patch out of range: %v", err)
	}
}
