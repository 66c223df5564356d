package api

import (
	"bytes"
	"encoding/json"
	"math/big"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// drawRequest makes a valid body with all that GET should show again.
func drawRequest(t *rapid.T) map[string]any {
	text := rapid.String()
	timing := map[string]any{}
	switch rapid.SampledFrom([]string{"one-shot", "recurring", "at"}).Draw(t, "kind") {
	case "one-shot":
		timing["interval"] = json.Number(rapid.StringMatching(`(0|[1-9][0-9]{0,7})(\.[0-9]{1,12})?([eE]-?[01])?`).Draw(t, "interval"))
	case "recurring":
		timing["interval"] = json.Number(rapid.StringMatching(`[1-9][0-9]{0,3}(\.[0-9]{1,6})?`).Draw(t, "interval"))
		timing["repeat-for"] = json.Number(rapid.StringMatching(`[1-9][0-9]{4,8}(\.[0-9]{1,6})?`).Draw(t, "repeat-for"))
	case "at":
		at := time.UnixMilli(rapid.Int64Range(0, 4e12).Draw(t, "at"))
		timing["at"] = at.In(time.FixedZone("", 60*rapid.IntRange(-1439, 1439).Draw(t, "offset"))).Format(time.RFC3339Nano)
	}
	request := map[string]any{
		"timing":      timing,
		"callback":    map[string]any{"http": map[string]any{"uri": "http://host/" + rapid.StringMatching(`[a-z%"<&é]{0,5}`).Draw(t, "path"), "opaque": text.Draw(t, "opaque")}},
		"reliability": map[string]any{"replication-factor": json.Number(strconv.Itoa(rapid.IntRange(1, 16).Draw(t, "factor")))},
	}
	var tags []any
	for range rapid.IntRange(0, 3).Draw(t, "tags") {
		tags = append(tags, map[string]any{"type": "T" + text.Draw(t, "type"), "count": json.Number(strconv.Itoa(rapid.IntRange(1, 1<<31-1).Draw(t, "count")))})
	}
	if tags != nil {
		request["statistics"] = map[string]any{"tag-info": tags}
	}
	return request
}

func TestRequestsRoundTrip(t *testing.T) {
	s := New(Config{Timers: &fakeTimers{}})
	rapid.Check(t, func(r *rapid.T) {
		request := drawRequest(r)
		body, err := json.Marshal(request)
		if err != nil {
			r.Fatal(err)
		}
		created := ask(t, s, "POST", "/timers", string(body))
		if created.status != http.StatusOK {
			if code := parse[problem](t, created.body).Code; code == "uri-malformed" {
				return // a percent sign before what is no hexadecimal number
			}
			r.Fatalf("%s: %d %s", body, created.status, created.body)
		}
		got := ask(t, s, "GET", created.header.Get("Location"), "")
		var shown map[string]any
		decoder := json.NewDecoder(bytes.NewReader(got.body))
		decoder.UseNumber()
		if err := decoder.Decode(&shown); err != nil {
			r.Fatalf("%s: %v", got.body, err)
		}
		for _, member := range []string{"callback", "reliability", "statistics"} {
			if diff := cmp.Diff(request[member], shown[member]); diff != "" {
				r.Fatalf("%s (-want +have):\n%s", member, diff)
			}
		}
		checkTimingShown(r, request["timing"], shown["timing"])

		// What GET shows can be sent again.
		again := ask(t, s, "PUT", created.header.Get("Location"), string(got.body))
		want := []string{"/id", "/key", "/state", "/due", "/sequence", "/attempts"}
		if diff := cmp.Diff(want, parse[receiptView](t, again.body).Ignored); again.status != http.StatusOK || diff != "" {
			r.Fatalf("PUT of what GET showed: %d %s", again.status, again.body)
		}
		if after := ask(t, s, "GET", created.header.Get("Location"), ""); !bytes.Equal(got.body, after.body) {
			r.Fatalf("have %s, want %s", after.body, got.body)
		}
	})
}

func checkTimingShown(t *rapid.T, asked, shown any) {
	want, _ := asked.(map[string]any)
	have, _ := shown.(map[string]any)
	if len(want) != len(have) {
		t.Fatalf("asked %v, shown %v", want, have)
	}
	for name, value := range want {
		switch value := value.(type) {
		case json.Number:
			ms := ceilScaled(t, value.String(), 3)
			number, _ := have[name].(json.Number)
			seconds, ok := new(big.Rat).SetString(number.String())
			if !ok || seconds.Cmp(new(big.Rat).SetFrac(ms, big.NewInt(1000))) != 0 {
				t.Fatalf("%s: asked %s, shown %v", name, value, have[name])
			}
		case string:
			was, _ := time.Parse(time.RFC3339, value)
			text, _ := have[name].(string)
			is, err := time.Parse(time.RFC3339, text)
			if err != nil || !is.Equal(was) {
				t.Fatalf("%s: asked %s, shown %v", name, value, have[name])
			}
		}
	}
}
