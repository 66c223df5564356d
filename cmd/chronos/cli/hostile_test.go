package cli

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// answering is a rig for a node that gives these answers in turn, and the last answer for ever. An answer that
// begins with a digit is a problem with that status.
func answering(t *testing.T, answers ...string) (r *rig, asked *int) {
	t.Helper()
	asked = new(int)
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answer := answers[min(*asked, len(answers)-1)]
		*asked++
		if status, detail, is := strings.Cut(answer, " "); is && status == "403" {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusForbidden)
			answer = `{"status":403,"code":"token-scope","detail":"` + detail + `"}`
		}
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(node.Close)
	return &rig{t: t, url: node.URL}, asked
}

// An empty value selects nothing: a shell has emptied a variable that is unset.
func TestEmptyValuesAreRefused(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"timer", "delete", "--to", "http://h", "--yes", "--prefix", ""}, {"timer", "list", "--text="}, {"status", "--admin-url", ""}, {"timer", "get", ""},
		{"timer", "create", "--in", "5s", "--to", "http://h/", "--id", ""}, {"timer", "create", "--in", "5s", "--to", "http://h/", "--idempotency-key="},
		{"topology", "add", "d", ""}, {"dead", "delete", "--reason="}, {"timer", "cancel", "a", ""},
	} {
		if out, errs, status := nowhere(t).execute(args); status != Misused || out != "" || !strings.Contains(errs, "is empty") {
			t.Errorf("%q: status %d, %s%s", args, status, out, errs)
		}
	}
}

// Every page may lack other shards, and an error does not hide what was done before.
func TestWhatIsMissingIsSaid(t *testing.T) {
	t.Parallel()
	r, _ := answering(t, `{"timers":[],"next":"1","unreached":["b"]}`, `{"timers":[],"unreached":["c"]}`)
	if _, errs := r.run(Unreachable, "timer list --all"); !strings.Contains(errs, "the timers on b, c are missing") {
		t.Error(errs)
	}
	r, _ = answering(t, `{"done":3,"refused":[],"next":"1","unreached":["b"]}`, `{"done":2,"refused":[],"unreached":[]}`)
	if out, errs := r.run(Unreachable, "timer delete --all --yes"); out != "deleted 5 timers, refused 0, left out 0 that changed meanwhile\n" || !strings.Contains(errs, "on b are missing") {
		t.Errorf("%s%s", out, errs)
	}
	r, _ = answering(t, `{"done":3,"refused":[],"unreached":["b"]}`)
	if out, errs := r.run(Unreachable, "timer fire --prefix p --dry-run --json"); !strings.Contains(out, `"done":3`) || !strings.Contains(errs, "on b are missing") {
		t.Errorf("%s%s", out, errs)
	}
	r, _ = answering(t, `{"done":3,"refused":[],"next":"1","unreached":[]}`, "403 you may no more")
	if out, errs := r.run(Refused, "timer delete --all --yes"); out != "" || errs != "deleted 3 timers before the error\nchronos: you may no more\n" {
		t.Errorf("%s%s", out, errs)
	}
	r, _ = answering(t, `{"deleted":3,"left":9,"next":"1"}`, "403 you may no more")
	if out, errs := r.run(Refused, "dead delete --all"); out != "" || errs != "deleted 3, refused 0 before the error\nchronos: you may no more\n" {
		t.Errorf("%s%s", out, errs)
	}
	r, _ = answering(t, `{"letters":[],"unreached":["b"]}`)
	if out, _ := r.run(Unreachable, "dead list --json"); !strings.Contains(out, `"unreached":["b"]`) {
		t.Error(out)
	}
}

// No command asks for the same page for ever, and no text of a node controls the terminal.
func TestHostileNodes(t *testing.T) {
	t.Parallel()
	const a, b = `{"timers":[],"refused":[],"letters":[],"next":"a","unreached":[]}`, `{"timers":[],"refused":[],"letters":[],"next":"b","unreached":[]}`
	for _, args := range []string{"timer list --all", "timer delete --all --yes", "dead list --limit 1000000", "dead fire --all"} {
		r, asked := answering(t, a, b, a, b)
		if _, errs := r.run(Refused, args); !strings.Contains(errs, "cursor stands still") || *asked > 3 {
			t.Errorf("%s: asked %d times, %s", args, *asked, errs)
		}
	}
	const controls = "\\u001b[2J\\u009b1m\\u202e"
	r, _ := answering(t, `{"timers":[{"id":"a`+controls+`","state":"`+controls+`","callback":{"http":{"uri":"`+controls+`"}}}],"unreached":[]}`)
	for _, args := range []string{"timer list", "timer list --json"} {
		out, errs := r.run(Done, args)
		if !strings.Contains(out, "[2J") || strings.ContainsAny(out+errs, "\x1b\u009b\u202e") {
			t.Errorf("%s: %q", args, out+errs)
		}
	}
	r, _ = answering(t, `no JSON`)
	if _, errs := r.run(Unreachable, "status"); !strings.Contains(errs, "is the URL that of an admin listener?") {
		t.Error(errs)
	}
}

// waiting shows a topology that moves, and is stopped.
func TestWaitForTheSweep(t *testing.T) {
	t.Parallel()
	const moving, rest = `{"epoch":1,"moving":true,"shards":[]}`, `{"epoch":2,"moving":false,"shards":[]}`
	r, asked := answering(t, moving, "403 not now", rest)
	if out, _ := r.run(Done, "topology drain b --wait"); strings.Count(out, "epoch") != 2 || !strings.Contains(out, "epoch 2, cluster-view-id , at rest") || *asked != 3 {
		t.Errorf("asked %d times: %s", *asked, out)
	}
	r, _ = answering(t, moving)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out, errs strings.Builder
	line := CLI{In: strings.NewReader(""), Out: &stopper{Writer: &out, stop: cancel}, Err: &errs, Environ: []string{"CHRONOS_ADMIN_URL=" + r.url, "CHRONOS_TOKEN=t"}, Now: time.Now}
	if status := line.Run(ctx, []string{"topology", "drain", "b", "--wait"}); status != Refused || !strings.Contains(errs.String(), "timers still move") {
		t.Errorf("status %d: %s", status, &errs)
	}
}

// stopper stops the command line once something is written.
type stopper struct {
	io.Writer
	stop func()
}

func (s *stopper) Write(b []byte) (int, error) {
	s.stop()
	return s.Writer.Write(b)
}

// A command line that is stopped before an answer says nothing of the cluster.
func TestStoppedBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	node := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	defer node.Close()
	var out, errs strings.Builder
	line := CLI{In: strings.NewReader(""), Out: &out, Err: &errs, Environ: []string{"CHRONOS_ADMIN_URL=" + node.URL, "CHRONOS_TOKEN=t"}, Now: time.Now}
	if status := line.Run(ctx, []string{"status"}); status != Unreachable || out.Len() != 0 || strings.Contains(errs.String(), "--admin-url") {
		t.Errorf("status %d: %s%s", status, &out, &errs)
	}
}
