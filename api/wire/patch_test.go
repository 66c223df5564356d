package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"chronos/api/apitest"
	"chronos/scheduler/timer"
)

// patchable is a timer with every member.
func patchable() timer.Timer {
	return timer.Timer{
		Interval: 30 * time.Second, RepeatFor: time.Hour, ExpiresAfter: time.Minute, ReplicationFactor: 3,
		Callback: timer.Callback{
			URI: "http://u:s3cret@h/x", Opaque: "o\u2028<&>", Method: "PUT", Headers: "\r\nX-B: 1\r\nX-Api-Key: s3cret\r\nX-A: 2", Timeout: 2500 * time.Millisecond,
			Retry: timer.Retry{Attempts: 8, First: 100 * time.Millisecond, Factor: 1.5, Longest: time.Hour},
		},
		Tags: []timer.Tag{{Type: "CALL", Count: 2}, {Type: "REG", Count: 1}},
	}
}

// bare is a timer without optional members.
func bare() timer.Timer {
	return timer.Timer{At: fakeInstant(), ReplicationFactor: 2, Callback: timer.Callback{URI: "http://a/b"}}
}

func fakeInstant() time.Time { return time.Date(2030, 1, 31, 12, 0, 0, 250e6, time.UTC) }

func applyPatch(t timer.Timer, patch string, unknown Handling) (patched timer.Timer, begins bool, ignored []string, err error) {
	p, err := ReadPatch([]byte(patch))
	if err != nil {
		return timer.Timer{}, false, nil, err
	}
	return p.Apply(&t, unknown)
}

// ofHTTP is a patch of members of the callback.
func ofHTTP(members string) string { return `{"callback":{"http":{` + members + `}}}` }

func TestPatchChangesAndRemoves(t *testing.T) {
	for name, tc := range map[string]struct {
		patch   string
		edit    func(*timer.Timer) // the difference to the timer before
		begins  bool
		ignored []string
	}{
		"nothing":                      {patch: ` {} `},
		"objects without members":      {patch: `{"callback":{"http":{"headers":{},"retry":{}}},"reliability":{},"statistics":{}}`},
		"opaque":                       {patch: ofHTTP(`"opaque":"new"`), edit: func(t *timer.Timer) { t.Callback.Opaque = "new" }},
		"opaque empty":                 {patch: ofHTTP(`"opaque":""`), edit: func(t *timer.Timer) { t.Callback.Opaque = "" }},
		"opaque removed":               {patch: ofHTTP(`"opaque":null`), edit: func(t *timer.Timer) { t.Callback.Opaque = "" }},
		"uri":                          {patch: ofHTTP(`"uri":"https://b/"`), edit: func(t *timer.Timer) { t.Callback.URI = "https://b/" }},
		"escaped name":                 {patch: ofHTTP(`"ur\u0069":"https://b/"`), edit: func(t *timer.Timer) { t.Callback.URI = "https://b/" }},
		"method removed":               {patch: ofHTTP(`"method":null`), edit: func(t *timer.Timer) { t.Callback.Method = "" }},
		"timeout removed":              {patch: ofHTTP(`"timeout": null `), edit: func(t *timer.Timer) { t.Callback.Timeout = 0 }},
		"timeout rounded up":           {patch: ofHTTP(`"timeout":0.5001`), edit: func(t *timer.Timer) { t.Callback.Timeout = 501 * time.Millisecond }},
		"one member of retry":          {patch: ofHTTP(`"retry":{"attempts":2}`), edit: func(t *timer.Timer) { t.Callback.Retry.Attempts = 2 }},
		"a member of retry removed":    {patch: ofHTTP(`"retry":{"attempts":null,"factor":3}`), edit: func(t *timer.Timer) { t.Callback.Retry.Attempts, t.Callback.Retry.Factor = 0, 3 }},
		"retry removed":                {patch: ofHTTP(`"retry":null`), edit: func(t *timer.Timer) { t.Callback.Retry = timer.Retry{} }},
		"all members of retry removed": {patch: ofHTTP(`"retry":{"attempts":null,"first":null,"factor":null,"longest":null}`), edit: func(t *timer.Timer) { t.Callback.Retry = timer.Retry{} }},
		"header in its place":          {patch: ofHTTP(`"headers":{"X-B":"new"}`), edit: func(t *timer.Timer) { t.Callback.Headers = "\r\nX-B: new\r\nX-Api-Key: s3cret\r\nX-A: 2" }},
		"header in another case":       {patch: ofHTTP(`"headers":{"x-API-key":"new"}`), edit: func(t *timer.Timer) { t.Callback.Headers = "\r\nX-B: 1\r\nX-Api-Key: new\r\nX-A: 2" }},
		"headers added at the end":     {patch: ofHTTP(`"headers":{"X-0":"","X-C":"c"}`), edit: func(t *timer.Timer) { t.Callback.Headers += "\r\nX-0: \r\nX-C: c" }},
		"header removed":               {patch: ofHTTP(`"headers":{"x-b":null}`), edit: func(t *timer.Timer) { t.Callback.Headers = "\r\nX-Api-Key: s3cret\r\nX-A: 2" }},
		"no such header removed":       {patch: ofHTTP(`"headers":{"X-Z":null,"X Z":null}`)},
		"each header removed":          {patch: ofHTTP(`"headers":{"X-A":null,"x-b":null,"X-API-KEY":null}`), edit: func(t *timer.Timer) { t.Callback.Headers = "" }},
		"headers removed":              {patch: ofHTTP(`"headers":null`), edit: func(t *timer.Timer) { t.Callback.Headers = "" }},
		"tags replaced as a whole":     {patch: `{"statistics":{"tag-info":[{"type":"NEW","count":null}]}}`, edit: func(t *timer.Timer) { t.Tags = []timer.Tag{{Type: "NEW", Count: 1}} }},
		"no tags":                      {patch: `{"statistics":{"tag-info":[]}}`, edit: func(t *timer.Timer) { t.Tags = nil }},
		"tag-info removed":             {patch: `{"statistics":{"tag-info":null}}`, edit: func(t *timer.Timer) { t.Tags = nil }},
		"statistics removed":           {patch: `{"statistics":null}`, edit: func(t *timer.Timer) { t.Tags = nil }},
		"the same factor":              {patch: `{"reliability":{"replication-factor":3}}`},
		"factor removed":               {patch: `{"reliability":{"replication-factor":null}}`, edit: func(t *timer.Timer) { t.ReplicationFactor = 0 }},
		"reliability removed":          {patch: `{"reliability":null}`, edit: func(t *timer.Timer) { t.ReplicationFactor = 0 }},
		"timing without members":       {patch: `{"timing":{}}`, begins: true},
		"the same interval":            {patch: `{"timing":{"interval":3e1}}`, begins: true},
		"interval":                     {patch: `{"t\u0069ming":{"interval":5}}`, edit: func(t *timer.Timer) { t.Interval = 5 * time.Second }, begins: true},
		"repeat-for removed":           {patch: `{"timing":{"repeat-for":null,"expires-after":null}}`, edit: func(t *timer.Timer) { t.RepeatFor, t.ExpiresAfter = 0, 0 }, begins: true},
		"another first pop":            {patch: `{"timing":{"at":"2030-01-31T12:00:00.25Z"}}`, edit: func(t *timer.Timer) { t.At = fakeInstant() }, begins: true},
		"at for interval": {
			patch: `{"timing":{"at":"2030-01-31T12:00:00.25Z","interval":null,"repeat-for":null}}`,
			edit:  func(t *timer.Timer) { t.At, t.Interval, t.RepeatFor = fakeInstant(), 0, 0 }, begins: true,
		},
		"unknown members": {
			patch:   `{"color":{"a":1,"a":null},"timing ":null,"callback":{"http":{"a/b":2,"timout":null,"retry":{"x":[]}}},"` + strings.Repeat("n", maxIgnoredName+1) + `":1}`,
			ignored: []string{"/callback/http/retry/x", "/callback/http/a~1b", "/callback/http/timout", "/color", "/timing "},
		},
		"a timer that was read": {
			patch:   `{"id":"k-3-0000000000008421","key":"k","state":"waiting","due":"2030-01-31T12:00:00.000Z","sequence":1,"attempts":0}`,
			ignored: []string{"/id", "/key", "/state", "/due", "/sequence", "/attempts"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := patchable()
			if tc.edit != nil {
				tc.edit(&want)
			}
			have, begins, ignored, err := applyPatch(patchable(), tc.patch, Lenient)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, have); diff != "" || begins != tc.begins {
				t.Errorf("begins %v, timer (-want +have):\n%s", begins, diff)
			}
			if diff := cmp.Diff(tc.ignored, ignored); diff != "" {
				t.Errorf("ignored (-want +have):\n%s", diff)
			}
		})
	}
}

// A null for a member that the timer lacks has no effect, and an object that the timer lacks is added.
func TestPatchOfATimerWithoutOptionalMembers(t *testing.T) {
	full := patchable()
	for patch, edit := range map[string]func(*timer.Timer){
		`{"statistics":null,"callback":{"http":{"method":null,"headers":null,"timeout":null,"retry":null}}}`: func(*timer.Timer) {},
		ofHTTP(`"headers":{"X-A":null},"retry":{"attempts":null}`):                                           func(*timer.Timer) {},
		`{"statistics":{"tag-info":null}}`:                                                                   func(*timer.Timer) {},
		`{"statistics":{"tag-info":[{"type":"T"}]}}`:                                                         func(t *timer.Timer) { t.Tags = []timer.Tag{{Type: "T", Count: 1}} },
		ofHTTP(`"headers":{"X-B":null,"X-A":"a","X-C":null}`):                                                func(t *timer.Timer) { t.Callback.Headers = "\r\nX-A: a" },
		ofHTTP(`"retry":{"attempts":8,"first":0.1,"factor":1.5,"longest":3600}`):                             func(t *timer.Timer) { t.Callback.Retry = full.Callback.Retry },
		ofHTTP(`"retry":{"attempts":8,"first":null}`):                                                        func(t *timer.Timer) { t.Callback.Retry.Attempts = 8 },
	} {
		want := bare()
		edit(&want)
		have, begins, ignored, err := applyPatch(bare(), patch, Strict)
		if diff := cmp.Diff(want, have); err != nil || diff != "" || begins || ignored != nil {
			t.Errorf("%s: %v, begins %v, ignored %q (-want +have):\n%s", patch, err, begins, ignored, diff)
		}
	}
}

// patchRefusals are patches of patchable that are refused, with code and pointer.
func patchRefusals() map[string][3]string {
	const http, headers = "/callback/http", "/callback/http/headers"
	long := strings.Repeat("n", maxIgnoredName+1)
	many := `"m0":null`
	for i := range maxChanges {
		many += fmt.Sprintf(`,"m%d":null`, i+1)
	}
	return map[string][3]string{
		"empty":                     {"", "body-missing", ""},
		"blank":                     {" \n", "body-missing", ""},
		"null":                      {"null", "body-not-object", ""},
		"array":                     {`["a"]`, "body-not-object", ""},
		"string":                    {`"bar"`, "body-not-object", ""},
		"cut off":                   {`{"a":`, "body-syntax", ""},
		"no JSON inside":            {ofHTTP(`uri:1`), "body-syntax", ""},
		"something after":           {`{} {}`, "body-trailing", ""},
		"not UTF-8":                 {ofHTTP("\"opaque\":\"\xff\""), "string-utf8", ""},
		"half a pair":               {ofHTTP(`"opaque":"\ud800"`), "string-surrogate", ""},
		"too deep":                  {`{"a":` + apitest.Nest(maxDepth) + `}`, "body-depth", ""},
		"member twice":              {`{"reliability":{},"reliability":{}}`, "member-duplicate", "/reliability"},
		"unknown member twice":      {ofHTTP(`"a/~b":1,"a/~b":null`), "member-duplicate", http + "/a~1~0b"},
		"long name twice":           {ofHTTP(`"` + long + `":1,"` + long + `":1`), "member-duplicate", http},
		"escaped name twice":        {ofHTTP(`"opaque":"a","op\u0061que":null`), "member-duplicate", http + "/opaque"},
		"timing twice":              {`{"timing":{},"timing":{}}`, "member-duplicate", "/timing"},
		"header twice":              {ofHTTP(`"headers":{"X-~":"1","x-~":"2"}`), "member-duplicate", headers + "/x-~0"},
		"header removed and set":    {ofHTTP(`"headers":{"X-A":null,"x-a":"2"}`), "member-duplicate", headers + "/x-a"},
		"new header twice":          {ofHTTP(`"headers":{"X-Z":null,"X-z":"2"}`), "member-duplicate", headers + "/X-z"},
		"no header's name twice":    {ofHTTP(`"headers":{"X Z":null,"X Z":null}`), "member-duplicate", headers},
		"twice in an entry":         {`{"statistics":{"tag-info":[{"type":"A","type":"B"}]}}`, "member-duplicate", "/statistics/tag-info/0/type"},
		"more members than allowed": {`{` + many + `}`, "member-unknown", ""},
		"more headers than allowed": {ofHTTP(`"headers":{` + many + `}`), "member-unknown", headers},
		"timing removed":            {`{"timing":null}`, "timing-missing", "/timing"},
		"timing no object":          {`{"timing":30}`, "timing-type", "/timing"},
		"interval removed":          {`{"timing":{"interval":null}}`, "interval-missing", "/timing/interval"},
		"at beside interval":        {`{"timing":{"at":"2030-01-31T12:00:00Z","repeat-for":null}}`, "at-and-interval", "/timing"},
		"callback removed":          {`{"callback":null}`, "callback-missing", "/callback"},
		"callback no object":        {`{"callback":"http://a/b"}`, "callback-type", "/callback"},
		"http removed":              {`{"callback":{"http":null}}`, "callback-kind", "/callback"},
		"http no object":            {`{"callback":{"http":[]}}`, "callback-http-type", http},
		"another kind":              {`{"callback":{"kafka":{}}}`, "callback-kind", "/callback"},
		"uri removed":               {ofHTTP(`"uri":null`), "uri-missing", http + "/uri"},
		"uri that is hidden":        {ofHTTP(`"uri":"http://***@h/x"`), "uri-redacted", http + "/uri"},
		"uri no string":             {ofHTTP(`"uri":{}`), "uri-type", http + "/uri"},
		"opaque an object":          {ofHTTP(`"opaque":{"a":1}`), "opaque-type", http + "/opaque"},
		"opaque of GET":             {ofHTTP(`"method":"GET"`), "opaque-of-get", http + "/opaque"},
		"headers no object":         {ofHTTP(`"headers":["X-A"]`), "headers-type", headers},
		"header no string":          {ofHTTP(`"headers":{"X-A":{"a":null}}`), "headers-type", headers + "/X-A"},
		"header that is hidden":     {ofHTTP(`"headers":{"x-api-KEY":"***"}`), "header-redacted", headers + "/X-Api-Key"},
		"header of chronos":         {ofHTTP(`"headers":{"Host":"h"}`), "header-reserved", headers + "/Host"},
		"authorization beside user": {ofHTTP(`"headers":{"Authorization":"a"}`), "header-reserved", headers + "/Authorization"},
		"retry no object":           {ofHTTP(`"retry":1`), "retry-range", http + "/retry"},
		"retry out of range":        {ofHTTP(`"retry":{"attempts":0}`), "retry-range", http + "/retry/attempts"},
		"tag-info an object":        {`{"statistics":{"tag-info":{}}}`, "tag-info-type", "/statistics/tag-info"},
		"null within an array":      {`{"statistics":{"tag-info":[null]}}`, "tag-info-type", "/statistics/tag-info/0"},
		"factor out of range":       {`{"reliability":{"replication-factor":17}}`, "replication-factor-range", "/reliability/replication-factor"},
	}
}

func TestPatchRefuses(t *testing.T) {
	for name, tc := range patchRefusals() {
		t.Run(name, func(t *testing.T) {
			patched, _, _, err := applyPatch(patchable(), tc[0], Lenient)
			if err == nil {
				err = patched.Validate()
			}
			refused, ok := errors.AsType[*timer.InvalidError](err)
			if !ok {
				t.Fatalf("have %v, want an InvalidError", err)
			}
			if refused.Code != tc[1] || refused.Pointer != tc[2] {
				t.Errorf("have %s at %q, want %s at %q (%s)", refused.Code, refused.Pointer, tc[1], tc[2], refused.Detail)
			}
		})
	}
}

func TestStrictPatchRefusesUnknownMembers(t *testing.T) {
	for patch, pointer := range map[string]string{
		`{"color":1}`: "/color", `{"color":null}`: "/color", ofHTTP(`"timout":null`): "/callback/http/timout",
		ofHTTP(`"retry":{"tries":1}`): "/callback/http/retry/tries", `{"timing":{"every":1}}`: "/timing/every", `{"statistics":{"tags":null}}`: "/statistics/tags",
	} {
		_, _, _, err := applyPatch(patchable(), patch, Strict)
		if refused, ok := errors.AsType[*timer.InvalidError](err); !ok || refused.Code != "member-unknown" || refused.Pointer != pointer {
			t.Errorf("%s: have %v, want that %s is unknown", patch, err, pointer)
		}
	}
	if _, _, _, err := applyPatch(patchable(), `{"id":"k","state":null,"callback":{"http":{"opaque":""}}}`, Strict); err != nil {
		t.Errorf("members of an answer: %v", err)
	}
}

// Apply leaves the timer and the body unchanged, and the patched timer has nothing of the body: the memory of
// the body is used again.
func TestPatchKeepsNothingOfTheBody(t *testing.T) {
	body := []byte(ofHTTP(`"opaque":"new","uri":"http://n/","headers":{"X-A":null,"X-N":"n"}`))
	p, err := ReadPatch(body)
	if err != nil {
		t.Fatal(err)
	}
	want := patchable()
	want.Callback.Opaque, want.Callback.URI, want.Callback.Headers = "new", "http://n/", "\r\nX-B: 1\r\nX-Api-Key: s3cret\r\nX-N: n"
	var patched [2]timer.Timer
	for i := range patched {
		before := patchable()
		if patched[i], _, _, err = p.Apply(&before, Lenient); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(patchable(), before); diff != "" {
			t.Errorf("the timer has changed (-before +after):\n%s", diff)
		}
	}
	clear(body)
	for _, have := range patched {
		if diff := cmp.Diff(want, have); diff != "" {
			t.Errorf("timer (-want +have):\n%s", diff)
		}
	}
}

// model is MergePatch as RFC 7396, 2 has the function. In headers a name counts in any case.
func model(target, patch any, pointer string) any {
	changes, is := patch.(map[string]any)
	if !is {
		return patch
	}
	merged := map[string]any{}
	if members, is := target.(map[string]any); is {
		merged = members
	}
	for name, value := range changes {
		if pointer == headersPointer {
			for known := range merged {
				if strings.EqualFold(known, name) {
					name = known
				}
			}
		}
		if value == nil {
			delete(merged, name)
		} else {
			merged[name] = model(merged[name], value, pointer+"/"+name)
		}
	}
	return merged
}

// byName is the timer with the headers in the order of the names.
func byName(t timer.Timer) timer.Timer {
	var lines []string
	for name, value := range t.Callback.Headers.All() {
		lines = append(lines, "\r\n"+name+": "+value)
	}
	slices.Sort(lines)
	t.Callback.Headers = timer.Headers(strings.Join(lines, ""))
	return t
}

// checkPatch applies a patch and compares the result with the model's.
func checkPatch(t rapid.TB, before timer.Timer, body string) {
	t.Helper()
	patched, begins, _, err := applyPatch(before, body, Lenient)
	refused, ours := errors.AsType[*timer.InvalidError](err)
	if err != nil && !ours {
		t.Fatalf("have %v, want an InvalidError", err)
	}
	var target, patch any
	if json.Unmarshal([]byte(body), &patch) != nil || err != nil && slices.Contains([]string{"body-depth", "string-utf8", "string-surrogate", "member-duplicate", "member-unknown", "callback-kind"}, refused.Code) {
		return // the model takes what is refused
	}
	read := func(text string, into *any) {
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.UseNumber()
		if err := decoder.Decode(into); err != nil {
			t.Fatal(err)
		}
	}
	stored, renderErr := marshal(storedView(&before))
	if renderErr != nil {
		t.Fatal(renderErr)
	}
	read(string(stored), &target)
	read(body, &patch)
	merged, renderErr := marshal(model(target, patch, ""))
	if renderErr != nil {
		t.Fatal(renderErr)
	}
	want, _, wantErr := decode(merged)
	switch {
	case (err == nil) != (wantErr == nil):
		t.Fatalf("%s: have %v, want %v", body, err, wantErr)
	case err != nil:
		return
	case !begins:
		want.Interval, want.At, want.RepeatFor, want.ExpiresAfter = before.Interval, before.At, before.RepeatFor, before.ExpiresAfter
	}
	if diff := cmp.Diff(byName(want), byName(patched)); diff != "" {
		t.Fatalf("%s (-want +have):\n%s", body, diff)
	}
}

// FuzzPatch patches a timer with every member and a timer without optional members.
func FuzzPatch(f *testing.F) {
	for _, tc := range patchRefusals() {
		if len(tc[0]) < 1000 {
			f.Add(tc[0])
		}
	}
	f.Add(`{"timing":{"interval":5},"callback":{"http":{"headers":{"x-a":"3","X-New":"","x-b":null},"retry":{"factor":2,"first":null}}},"statistics":{"tag-info":[{"type":"T"}]}}`)
	f.Add(`{"callback":{"http":{"opaque":null,"method":null,"timeout":1,"retry":null,"headers":null}},"reliability":null,"statistics":null,"x":{"y":null}}`)
	f.Fuzz(func(t *testing.T, body string) {
		for _, before := range []timer.Timer{patchable(), bare()} {
			checkPatch(t, before, body)
		}
	})
}

// The patch without members changes no timer, and neither does a patch with all that the timer has.
func TestPatchesThatChangeNothing(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := writer{t: r}
		w.value("", drawRequest(r))
		before, _, err := understand(w.text.String())
		if err != nil {
			r.Fatal(err)
		}
		whole, err := marshal(storedView(&before))
		if err != nil {
			r.Fatal(err)
		}
		for patch, wantBegins := range map[string]bool{"{}": false, string(whole): true} {
			have, begins, ignored, err := applyPatch(before, patch, Strict)
			if diff := cmp.Diff(before, have); err != nil || diff != "" || begins != wantBegins || ignored != nil {
				r.Fatalf("%s: %v, begins %v, ignored %q (-before +after):\n%s", patch, err, begins, ignored, diff)
			}
		}
	})
}

// A patch that is a request of its own changes a timer as the model says.
func TestPatchesMergeAsTheModel(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var bodies [2]writer
		for i := range bodies {
			bodies[i] = writer{t: r}
			bodies[i].value("", drawRequest(r))
		}
		before, _, err := understand(bodies[0].text.String())
		if err != nil {
			r.Fatal(err)
		}
		checkPatch(r, before, bodies[1].text.String())
	})
}
