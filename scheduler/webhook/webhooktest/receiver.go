package webhooktest

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"
)

// maxBody is the longest body that is read, in bytes.
const maxBody = 16 << 20

// Receiver is an HTTP server that takes callbacks. Receiver is safe for concurrent use. New makes a
// Receiver; the end of the test or Close closes the Receiver.
type Receiver struct {
	server   *http.Server
	url      string
	stopped  chan struct{} // closed by Close: nothing is held back any longer
	served   chan struct{} // closed when the server has ended
	stopOnce sync.Once

	mu      sync.Mutex
	respond func(Call) Answer
	calls   []Call // only appended to, and never changed
	faults  []string
	changed chan struct{} // closed and replaced with every call
}

// New starts a receiver on a free port of 127.0.0.1. The receiver answers 200 until Respond is called.
func New(tb testing.TB) *Receiver {
	tb.Helper()
	listener, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("listen: %v", err)
	}
	return Serve(tb, listener)
}

// Serve is New on a listener of the caller, for example in memory. The receiver closes the listener.
func Serve(tb testing.TB, listener net.Listener) *Receiver {
	tb.Helper()
	r := &Receiver{
		url:     "http://" + listener.Addr().String(),
		stopped: make(chan struct{}),
		served:  make(chan struct{}),
		changed: make(chan struct{}),
	}
	r.server = &http.Server{
		Handler:           http.HandlerFunc(r.serve),
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	go func() {
		defer close(r.served)
		_ = r.server.Serve(listener) // ends with the Close below
	}()
	tb.Cleanup(func() {
		r.Close()
		for _, fault := range r.Faults() {
			tb.Errorf("receiver: %s", fault)
		}
	})
	return r
}

// URL is http://host:port, without a path; any path is served.
func (r *Receiver) URL() string { return r.url }

// Close ends all connections and all delayed answers, and frees the port. Close may be called again.
func (r *Receiver) Close() {
	r.stopOnce.Do(func() { close(r.stopped) })
	_ = r.server.Close()
	<-r.served
}

// Respond sets how calls are answered from now on; nil stands for 200. respond is called once for every
// call, for one call at a time, and must neither block nor use r.
func (r *Receiver) Respond(respond func(Call) Answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.respond = respond
}

// Calls are all calls so far, in the order of completion. The caller must not change the calls.
func (r *Receiver) Calls() []Call {
	calls, _ := r.snapshot()
	return calls
}

// Faults returns the faults of the calls so far, and forgets the faults.
func (r *Receiver) Faults() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	faults := r.faults
	r.faults = nil
	return faults
}

// Wait returns the calls as soon as enough accepts the calls. If ctx ends first, Wait returns the calls
// until then, with ctx's error.
func (r *Receiver) Wait(ctx context.Context, enough func([]Call) bool) ([]Call, error) {
	for {
		calls, changed := r.snapshot()
		if enough(calls) {
			return calls, nil
		}
		select {
		case <-ctx.Done():
			return calls, ctx.Err()
		case <-changed:
		}
	}
}

// WaitFor is Wait for at most within, and fails the test at once after within. WaitFor must be called
// from the test's goroutine.
func (r *Receiver) WaitFor(tb testing.TB, within time.Duration, enough func([]Call) bool) []Call {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), within)
	defer cancel()
	calls, err := r.Wait(ctx, enough)
	if err != nil {
		tb.Fatalf("receiver: not what was waited for within %v: %d calls came", within, len(calls))
	}
	return calls
}

// AtLeast is for Wait: n calls or more.
func AtLeast(n int) func([]Call) bool {
	return func(calls []Call) bool { return len(calls) >= n }
}

func (r *Receiver) snapshot() ([]Call, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clip(r.calls), r.changed
}

func (r *Receiver) serve(w http.ResponseWriter, req *http.Request) {
	arrived := time.Now()
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxBody))
	call, faults := read(req, string(body))
	call.Arrived = arrived
	if err != nil {
		faults = append(faults, "body ends early")
	}
	number, answer := r.record(call, faults)
	r.answer(w, req, number, answer)
}

// record numbers the call, asks for the answer, and makes the call visible.
func (r *Receiver) record(call Call, faults []string) (number int, answer Answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	call.Number = len(r.calls) + 1
	if r.respond != nil {
		call.Answer = r.respond(call)
	}
	r.calls = append(r.calls, call)
	for _, fault := range faults {
		r.faults = append(r.faults, call.String()+": "+fault)
	}
	close(r.changed)
	r.changed = make(chan struct{})
	return call.Number, call.Answer
}

func (r *Receiver) answer(w http.ResponseWriter, req *http.Request, number int, a Answer) {
	if (a.Hang || a.Delay > 0) && !r.hold(req.Context(), a) {
		r.mu.Lock()
		r.calls[number-1].Left = true
		r.mu.Unlock()
		panic(http.ErrAbortHandler) // an answer at the same instant might still be heard
	}
	if a.Hang || a.Drop {
		panic(http.ErrAbortHandler) // the server's way to close a connection without an answer
	}
	header := w.Header()
	if a.RetryAfter != "" {
		header.Set("Retry-After", a.RetryAfter)
	}
	if a.Location != "" {
		header.Set("Location", a.Location)
	}
	if a.Close {
		header.Set("Connection", "close")
	}
	w.WriteHeader(a.status())
	_, _ = io.WriteString(w, a.Body) // the client may have gone
}

// hold waits as long as the answer says, but not for a client that has gone, and reports whether the
// client has waited.
func (r *Receiver) hold(ctx context.Context, a Answer) (waited bool) {
	var over <-chan time.Time
	if !a.Hang {
		timer := time.NewTimer(a.Delay)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-over:
	case <-ctx.Done():
		return false
	case <-r.stopped:
	}
	return true
}
