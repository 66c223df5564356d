package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// Every timer has a line. Timers with secrets are only there if asked for.
func TestExport(t *testing.T) {
	t.Parallel()
	r := serve(t, sample())
	listed, _ := r.run(Done, "timer list --all --json")
	all, errs := r.run(Done, "timer export --secrets")
	if have, want := strings.Count(all, "\n"), strings.Count(listed, "\n"); have != want || !strings.HasPrefix(errs, fmt.Sprintf("exported %d timers, left out 0 ", want)) {
		t.Errorf("%d lines, want %d: %s", have, want, errs)
	}
	hidden := 0
	for text := range strings.Lines(all) {
		var l exportedLine
		if err := json.Unmarshal([]byte(text), &l); err != nil || l.Key == "" || l.URI == "" || strings.Contains(l.URI, "***") || l.At.IsZero() {
			t.Fatalf("%s, %v", text, err)
		}
		if strings.Contains(l.URI, "@") || l.Headers["Authorization"] != "" {
			hidden++
		}
	}
	if hidden == 0 {
		t.Fatal("no timer of the sample has secrets")
	}
	some, errs := r.run(Refused, "timer export")
	if strings.Contains(some, "***") || strings.Count(all, "\n")-strings.Count(some, "\n") < hidden || !strings.Contains(errs, "--secrets exports them, too") {
		t.Errorf("%d lines of %d: %s", strings.Count(some, "\n"), strings.Count(all, "\n"), errs)
	}
	if none, _ := r.run(Done, "timer export --prefix nobody-"); none != "" {
		t.Error(none)
	}
}

// An export that ends early says how to go on.
func TestExportGoesOn(t *testing.T) {
	t.Parallel()
	asked := 0
	r := &rig{t: t, url: answerWith(t, func(w http.ResponseWriter, q *http.Request) {
		switch asked++; {
		case strings.HasSuffix(q.URL.Path, "/export"):
			_, _ = io.WriteString(w, `{"key":"a","timing":{"at":"2030-01-31T13:00:00.000Z"},"callback":{"http":{"uri":"http://h","opaque":""}},"reliability":{"replication-factor":1}}`)
		case q.URL.Query().Get("cursor") == "":
			_, _ = io.WriteString(w, `{"timers":[{"id":"a","key":"a","due":"2030-01-31T13:00:00.000Z"}],"next":"1","unreached":[]}`)
		default:
			w.WriteHeader(http.StatusForbidden)
		}
	})}
	out, errs := r.run(Refused, "timer export")
	if strings.Count(out, "\n") != 1 || !strings.Contains(errs, "go on with --due-after 2030-01-31T13:00:00Z\n") {
		t.Errorf("%s%s", out, errs)
	}
}

func answerWith(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	node := httptest.NewServer(answer)
	t.Cleanup(node.Close)
	return node.URL
}

// importer is a public listener that notes the timers.
type importer struct {
	mu    sync.Mutex
	got   map[string]string // bodies by key
	there map[string]bool
	down  string // the key at which the listener fails
}

func (i *importer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	key := strings.TrimPrefix(r.URL.Path, "/timers/")
	body, err := io.ReadAll(r.Body)
	refuse := func(status int, code string) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"status":%d,"code":%q,"detail":"no"}`, status, code)
	}
	switch {
	case err != nil || r.Method != http.MethodPut:
		refuse(http.StatusBadRequest, "test")
	case key == i.down:
		refuse(http.StatusUnauthorized, "token-unknown")
	case r.Header.Get("If-None-Match") == "*" && i.there[key]:
		refuse(http.StatusPreconditionFailed, "precondition-failed")
	case strings.Contains(string(body), "ftp://"):
		refuse(http.StatusBadRequest, "uri-scheme")
	default:
		i.got[key] = string(body)
		_, _ = fmt.Fprintf(w, `{"id":%q,"key":%q,"due":"2030-01-31T13:00:00.000Z","copies":1}`, key+"-1-0000000000000001", key)
	}
}

func lineOf(key, uri string) string {
	return `{"key":"` + key + `","timing":{"interval":30,"repeat-for":60,"at":"2030-01-31T13:00:00Z"},"callback":{"http":{"uri":"` + uri + `","opaque":"é <&>"}},"reliability":{"replication-factor":1}}` + "\n"
}

func (r *rig) importing(status int, input string, args ...string) (out, errs string) {
	r.t.Helper()
	r.in = input
	return r.run(status, "timer import --url "+r.url, args...)
}

func TestImport(t *testing.T) {
	t.Parallel()
	to := &importer{got: map[string]string{}, there: map[string]bool{"b": true}}
	r := &rig{t: t, url: answerWith(t, to.ServeHTTP)}

	input := lineOf("a", "http://h/a") + "\n  \n" + lineOf("b", "http://h/b") + lineOf("c", "ftp://h") + "{}\n" + strings.TrimSpace(lineOf("d", "http://h/d"))
	out, errs := r.importing(Refused, input)
	if out != "imported 3 timers, skipped 0 that exist, refused 2\n" || !strings.Contains(errs, "line 5: ") || !strings.Contains(errs, "line 6: the line has no key\n") || len(to.got) != 3 {
		t.Errorf("%s%s, %v", out, errs, to.got)
	}
	if body := to.got["a"]; !strings.Contains(body, `"interval":30`) || !strings.Contains(body, `"at":"2030-01-31T13:00:00Z"`) || !strings.Contains(body, "http://h/a") {
		t.Error(body)
	}

	clear(to.got)
	if out, _ := r.importing(Done, input, "--skip-existing", "--from-line", "7", "--json"); out != `{"imported":1,"refused":0,"skipped":0}`+"\n" || len(to.got) != 1 {
		t.Errorf("%s, %v", out, to.got)
	}
	if out, _ := r.importing(Done, lineOf("b", "http://h/b"), "--skip-existing"); !strings.Contains(out, "skipped 1 that exist") || to.got["b"] != "" {
		t.Errorf("%s, %v", out, to.got)
	}
	if out, _ := r.importing(Done, ""); !strings.HasPrefix(out, "imported 0 ") {
		t.Error(out)
	}
	r.importing(Misused, "", "--from-line", "0")
	r.importing(Misused, "", "-f", "/nonexistent")
	r.importing(Misused, "", "more")
}

// More lines than a batch has are imported in order, and an error that is not about a line stops the import.
func TestImportStops(t *testing.T) {
	t.Parallel()
	var lines strings.Builder
	for i := range 2*importBatch + 3 {
		lines.WriteString(lineOf(fmt.Sprint("k", i), "http://h/"))
	}
	to := &importer{got: map[string]string{}, down: fmt.Sprint("k", importBatch+5)}
	r := &rig{t: t, url: answerWith(t, to.ServeHTTP)}
	out, errs := r.importing(Refused, lines.String())
	at := importBatch + 6
	if !strings.Contains(errs, fmt.Sprintf("stopped at line %d; go on with --from-line %d\n", at, at)) || !strings.HasPrefix(out, fmt.Sprintf("imported %d timers", at-1)) {
		t.Errorf("%s%s", out, errs)
	}
	to.down = ""
	if out, _ := r.importing(Done, lines.String(), "--from-line", fmt.Sprint(at)); len(to.got) != 2*importBatch+3 {
		t.Errorf("%s: %d timers", out, len(to.got))
	}
}

// A user who interrupts an import gets the number of the lines that were imported.
func TestImportIsInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	never, write := io.Pipe()
	defer write.Close() //nolint:errcheck // ends the reader
	go func() {
		_, _ = io.WriteString(write, lineOf("a", "http://h/")) // waits for the reader
		cancel()
	}()
	var out, errs strings.Builder
	line := CLI{In: never, Out: &out, Err: &errs, Environ: []string{"CHRONOS_URL=http://127.0.0.1:1"}, Now: time.Now}
	if status := line.Run(ctx, []string{"timer", "import"}); status != Refused || !strings.Contains(errs.String(), "interrupted") || !strings.HasPrefix(out.String(), "imported 0 timers") {
		t.Errorf("status %d: %s%s", status, &out, &errs)
	}
}
