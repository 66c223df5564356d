package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"reflect"
	"testing"
	"time"

	"chronos/api"
	"chronos/api/client"
	"chronos/api/tokens"
	"chronos/api/ui/uitest"
)

// everyone may do everything.
type everyone struct{}

func (everyone) Check([]byte, tokens.Role, time.Time) tokens.Decision {
	return tokens.Decision{Outcome: tokens.OK}
}

// serveAdmin serves an admin listener for a cluster in memory.
func serveAdmin(t *testing.T, b *uitest.Backend) (address string) {
	t.Helper()
	admin := api.NewAdmin(api.AdminConfig{Authorizer: everyone{}, Cluster: b, Letters: b.Dead, Groups: b.Dead, Interventions: b, Lister: b, Changer: b})
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- admin.Serve(ln) }()
	t.Cleanup(func() {
		if err := errors.Join(admin.Shutdown(context.WithoutCancel(t.Context())), <-served); err != nil {
			t.Error(err)
		}
	})
	return "http://" + ln.Addr().String()
}

// TestAdminAnswers: the types of the client have all that a node answers, null for null.
func TestAdminAnswers(t *testing.T) {
	t.Parallel()
	b := uitest.New().Sample()
	b.SetAway("b")
	address := serveAdmin(t, b)
	admin, err := client.NewAdmin(address)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	page, err := admin.List(t.Context(), client.Filter{}, "", 1)
	if err != nil || len(page.Timers) != 1 || page.Next == "" {
		t.Fatalf("%+v, %v", page, err)
	}
	letters, err := admin.Letters(t.Context(), client.LetterFilter{}, "", 1)
	if err != nil || len(letters.Letters) != 1 {
		t.Fatalf("%+v, %v", letters, err)
	}
	type copies struct {
		Copies []client.Copy `json:"copies"`
	}
	for path, into := range map[string]any{
		"/status": new(client.Status), "/load?step=10s&buckets=5": new(client.Load), "/timers?limit=1000": new(client.TimerPage),
		"/timers/" + page.Timers[0].ID + "/copies": new(copies), "/dead?limit=1000": new(client.LetterPage), "/dead/" + letters.Letters[0].ID: new(client.Letter),
		"/dead/groups": new(client.LetterGroups), "POST /timers/bulk/delete?all=true&dry-run=true": new(client.BulkResult),
	} {
		method, at := http.MethodGet, path
		if rest, is := bytes.CutPrefix([]byte(path), []byte("POST ")); is {
			method, at = http.MethodPost, string(rest)
		}
		raw := answerTo(t, method, address+at)
		decoder := json.NewDecoder(bytes.NewReader(raw))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(into); err != nil {
			t.Errorf("%s: %v\n%s", path, err, raw)
			continue
		}
		again, err := json.Marshal(into)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(plainJSON(t, raw), plainJSON(t, again)) {
			t.Errorf("%s\nanswered %s\nthe client has %s", path, raw, again)
		}
	}
}

func answerTo(t *testing.T, method, address string) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %d %s, %v", method, address, resp.StatusCode, raw, err)
	}
	return raw
}

// plainJSON is JSON with instants in one spelling.
func plainJSON(t *testing.T, raw []byte) any {
	t.Helper()
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		t.Fatal(err)
	}
	var walk func(any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			for k := range v {
				v[k] = walk(v[k])
			}
		case []any:
			for i := range v {
				v[i] = walk(v[i])
			}
		case string:
			if at, err := time.Parse(time.RFC3339, v); err == nil {
				return at.UTC()
			}
		}
		return v
	}
	return walk(value)
}

func TestAdminRefusesToMeanAll(t *testing.T) {
	t.Parallel()
	admin, err := client.NewAdmin("http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"bulk":           second(admin.Bulk(t.Context(), client.Bulk{Action: client.BulkDelete})),
		"fire letters":   second(admin.FireLetters(t.Context(), client.LetterFilter{}, false, "")),
		"delete letters": second(admin.DeleteLetters(t.Context(), client.LetterFilter{}, false, "")),
		"no letter":      admin.DeleteLetter(t.Context(), ""),
		"no shard":       second(admin.RemoveShard(t.Context(), "..", true)),
		"no timer":       second(admin.Fire(t.Context(), "", "")),
	} {
		if !errors.Is(err, client.ErrArgument) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestTimerAsJSON(t *testing.T) {
	t.Parallel()
	want := client.Timer{
		Interval: 1500 * time.Millisecond, RepeatFor: time.Hour, URI: "http://h/x", Opaque: "o", Method: "PUT", Headers: map[string]string{"X-A": "b"}, Timeout: time.Second,
		Retry: client.Retry{Attempts: 2, Factor: 1.5}, ReplicationFactor: 1, Tags: []client.Tag{{Type: "t", Count: 3}},
	}
	raw, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got client.Timer
	if err := json.Unmarshal(raw, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%s\nread as %+v, %v", raw, got, err)
	}
	for _, wrong := range []string{
		`{"timing":{},"callback":{"http":{"uri":"http://h/"}}}`, `{"timing":{"interval":1,"at":"2030-01-01T00:00:00Z"},"callback":{}}`, `{"timing":{"interval":1},"call":{}}`,
		`{"timing":{"at":"noon"}}`, `[]`, `{`,
	} {
		if err := json.Unmarshal([]byte(wrong), &got); err == nil {
			t.Errorf("%s was read as %+v", wrong, got)
		}
	}
}
