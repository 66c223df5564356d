package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"chronos/loadtest/check"
	"chronos/loadtest/fakenode"
)

// rig is a receiver, a node, and a client of the two. The client does the work of a load generator.
type rig struct {
	t        *testing.T
	receiver string
	node     *fakenode.Node
	status   chan int
	stop     context.CancelFunc
	out      *bytes.Buffer
	printed  chan struct{} // closed when out is complete
}

func start(t *testing.T, bug fakenode.Bug, args ...string) *rig {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(stop)
	node, err := fakenode.Start(ctx, bug)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(node.Close)
	r := &rig{t: t, node: node, status: make(chan int, 1), stop: stop, out: &bytes.Buffer{}, printed: make(chan struct{})}
	lines, stdout := io.Pipe()
	go func() {
		r.status <- run(ctx, append([]string{"-listen", "127.0.0.1:0"}, args...), stdout, stdout)
		_ = stdout.Close()
	}()
	var address string
	if _, err := fmt.Fscanf(lines, "receiver listens on %s\n", &address); err != nil {
		t.Fatal(err)
	}
	r.receiver = address
	go func() { defer close(r.printed); _, _ = io.Copy(r.out, lines) }()
	t.Cleanup(func() { stop(); <-r.printed })
	return r
}

func (r *rig) do(method, url, body string, header ...string) (*http.Response, string) {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return response, string(answer)
}

// operate sends a request about a timer to the node, and makes the operation known to the receiver. A create is sent
// twice with the same idempotency key.
func (r *rig) operate(session string, revision int, kind check.Kind, id string) string {
	r.t.Helper()
	op := check.Operation{Session: session, Revision: revision, Op: kind, ID: id, OK: true}
	method := map[check.Kind]string{check.Create: "POST", check.Refresh: "PUT", check.End: "DELETE"}[kind]
	body := ""
	if kind != check.End {
		op.IntervalMs, op.Pops, op.Body = 100, 600, fmt.Sprintf("%s revision %d", session, revision)
		body = fmt.Sprintf(`{"timing":{"interval":0.1,"repeat-for":60},"callback":{"http":{"uri":"%s%s","opaque":"%s"}}}`,
			r.receiver, check.CallbackPath(session, revision), op.Body)
	}
	op.SentMs = time.Now().UnixMilli()
	url := strings.TrimSuffix(r.node.URL()+"/timers/"+id, "/")
	var header []string
	if kind == check.Create {
		header = []string{"Idempotency-Key", session}
	}
	response, _ := r.do(method, url, body, header...)
	op.AnsweredMs = time.Now().UnixMilli()
	if kind == check.Create {
		r.do(method, url, body, header...)
	}
	op.InFlight = response.Header.Get("X-Chronos-In-Flight") == "true"
	if location := response.Header.Get("Location"); location != "" {
		op.ID = strings.TrimPrefix(location, "/timers/")
	}
	line, err := json.Marshal(op)
	if err != nil {
		r.t.Fatal(err)
	}
	if response, answer := r.do("POST", r.receiver+"/control/expect", string(line)); response.StatusCode != http.StatusOK {
		r.t.Fatalf("expect: %d %s", response.StatusCode, answer)
	}
	return op.ID
}

// callbacks waits until the receiver has got count callbacks.
func (r *rig) callbacks(count int64) {
	r.t.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		var report check.Report
		_, answer := r.do("GET", r.receiver+"/control/report", "")
		if err := json.Unmarshal([]byte(answer), &report); err != nil {
			r.t.Fatal(err)
		}
		if report.Callbacks >= count {
			return
		}
		select {
		case <-deadline.C:
			r.t.Fatalf("%d callbacks came, waited for %d", report.Callbacks, count)
		case <-tick.C:
		}
	}
}

// finish ends the receiver as a load test does, and returns the report and the status.
func (r *rig) finish() (check.Report, int) {
	r.t.Helper()
	var report check.Report
	response, answer := r.do("POST", r.receiver+"/control/finish?grace=300ms", "")
	if err := json.Unmarshal([]byte(answer), &report); err != nil {
		r.t.Fatalf("finish: %d %s: %v", response.StatusCode, answer, err)
	}
	return report, r.wait()
}

func (r *rig) wait() int {
	r.t.Helper()
	select {
	case status := <-r.status:
		return status
	case <-time.After(20 * time.Second):
		r.t.Fatal("the receiver goes on")
		return 0
	}
}

// play lets three timers run for some pops each. The first is refreshed and ended, the second ended; the third lives
// on.
func (r *rig) play() {
	first := r.operate("first", 1, check.Create, "")
	second := r.operate("second", 1, check.Create, "")
	r.operate("third", 1, check.Create, "")
	r.callbacks(6)
	r.operate("first", 2, check.Refresh, first)
	r.operate("second", 2, check.End, second)
	r.callbacks(12)
	r.operate("first", 3, check.End, first)
}

func TestCleanNodePasses(t *testing.T) {
	t.Parallel()
	r := start(t, fakenode.None, "-check", "-bound", "5s")
	r.play()
	_, live := r.do("GET", r.receiver+"/control/live", "")
	if !strings.Contains(live, `"session":"third"`) || strings.Contains(live, `"session":"first"`) {
		t.Errorf("live = %s", live)
	}
	report, status := r.finish()
	if status != 0 || !report.Passed || report.Callbacks < 12 || report.Operations != 6 || report.Live != 1 {
		t.Errorf("status %d, report %+v", status, report)
	}
}

func TestEachBugIsFound(t *testing.T) {
	want := map[fakenode.Bug]check.Violation{
		fakenode.Early:       check.Early,
		fakenode.Lost:        check.Missing,
		fakenode.Doubled:     check.Double,
		fakenode.Altered:     check.Altered,
		fakenode.AfterDelete: check.AfterAnswer,
		fakenode.AfterUpdate: check.AfterAnswer,
		fakenode.Repeated:    check.Altered, // the second timer has a different key
	}
	for _, bug := range fakenode.Bugs() {
		t.Run(string(bug), func(t *testing.T) {
			t.Parallel()
			bound := "5s"
			if bug == fakenode.Lost {
				bound = "1ms" // lateness doesn't matter here, and the test needn't wait
			}
			r := start(t, bug, "-check", "-bound", bound)
			r.play()
			report, status := r.finish()
			if status != 1 || report.Passed || report.Violations[want[bug]] == 0 {
				t.Errorf("status %d, report %+v", status, report)
			}
		})
	}
}

func TestRefusingReceiverMakesPopsMissing(t *testing.T) {
	t.Parallel()
	r := start(t, fakenode.None, "-check", "-bound", "1ms", "-fail-percent", "100")
	r.operate("only", 1, check.Create, "")
	r.callbacks(2)
	if report, status := r.finish(); status != 1 || report.Violations[check.Missing] == 0 {
		t.Errorf("status %d, report %+v", status, report)
	}
}

func TestDelayHoldsTheAnswerBack(t *testing.T) {
	t.Parallel()
	r := start(t, fakenode.None, "-delay", "50ms")
	began := time.Now()
	r.do("POST", r.receiver+"/any", "")
	if took := time.Since(began); took < 50*time.Millisecond {
		t.Errorf("answered after %s", took)
	}
}

func TestPrints(t *testing.T) {
	t.Parallel()
	r := start(t, fakenode.None)
	body := `{"timing":{"interval":0.1},"callback":{"http":{"uri":"` + r.receiver + `/hello","opaque":"first timer"}}}`
	response, _ := r.do("POST", r.node.URL()+"/timers", body)
	r.callbacks(1)
	r.stop()
	status := r.wait()
	<-r.printed
	out := r.out.String()
	id := strings.TrimPrefix(response.Header.Get("Location"), "/timers/")
	if !strings.Contains(out, "timer "+id+" sequence 1 attempt 1 due ") || !strings.Contains(out, `body "first timer"`) {
		t.Errorf("printed: %s", out)
	}
	// Without -check, nothing is judged.
	if status != 0 || strings.Contains(out, "passed") {
		t.Errorf("status %d, printed: %s", status, out)
	}
}

func TestEndsWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	r := start(t, fakenode.None, "-check", "-for", "10ms")
	if status := r.wait(); status != 1 {
		t.Errorf("status %d for a check that saw nothing, want 1", status)
	}
}

func TestRefusesWrongUse(t *testing.T) {
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	for name, args := range map[string][]string{
		"unknown flag":  {"-unknown"},
		"argument":      {"check"},
		"percentage":    {"-fail-percent", "101"},
		"address taken": {"-listen", taken.Addr().String()},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			if status := run(t.Context(), args, &out, &out); status != 2 || out.Len() == 0 {
				t.Errorf("status %d, printed %q", status, out.String())
			}
		})
	}
}

func TestControlRefuses(t *testing.T) {
	t.Parallel()
	r := start(t, fakenode.None, "-check")
	for _, test := range []struct {
		method, path, body string
		status             int
	}{
		{"POST", "/control/expect", "{", http.StatusBadRequest},
		{"POST", "/control/expect", `{"session":"s"}`, http.StatusBadRequest},
		{"POST", "/control/finish?grace=2h", "", http.StatusBadRequest},
		{"POST", "/control/other", "", http.StatusNotFound},
		{"GET", "/control/expect", "", http.StatusNotFound},
	} {
		if response, answer := r.do(test.method, r.receiver+test.path, test.body); response.StatusCode != test.status {
			t.Errorf("%s %s = %d %s, want %d", test.method, test.path, response.StatusCode, answer, test.status)
		}
	}
}
