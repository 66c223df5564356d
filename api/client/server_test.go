package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"chronos/api"
	"chronos/api/client"
	"chronos/api/openapitest"
	"chronos/scheduler/deliveries"
	"chronos/scheduler/statistics"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// memory keeps timers, as a scheduler does for the API.
type memory struct {
	version    timer.Version // of the last write
	puts       int64
	api.Timers // nil: the methods below do all the client's work

	mu      sync.Mutex
	records map[string]store.ReadResult
	bodies  map[string]string // by idempotency key
	fails   error             // of every operation
	log     deliveries.Page   // of every timer
	asked   deliveries.Query  // of the log
	over    bool              // says of replayed creates that their timers are over
}

var epoch = time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)

func newMemory() *memory {
	return &memory{records: map[string]store.ReadResult{}, bodies: map[string]string{}}
}

func (m *memory) put(id timer.ID, t timer.Timer) (timer.Receipt, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.puts++
	if m.fails != nil {
		return timer.Receipt{}, m.fails
	}
	if t.ReplicationFactor == 0 {
		t.ReplicationFactor = timer.DefaultReplicationFactor
	}
	if err := t.Validate(); err != nil {
		return timer.Receipt{}, err
	}
	id.RF, id.Hint = t.ReplicationFactor, 0x8421
	due := t.At
	if due.IsZero() {
		due = epoch.Add(t.Interval)
	}
	m.version++
	m.records[id.Key] = store.ReadResult{Record: store.Record{ID: id, Timer: t, State: timer.State{Version: m.version, Seq: 1}}, Due: due}
	return timer.Receipt{ID: id, Version: m.version, Due: due, Copies: 2}, nil
}

func (m *memory) Statistics(context.Context) (statistics.Sums, error) {
	return statistics.Sums{}, m.fails
}

func (m *memory) Create(_ context.Context, t timer.Timer) (timer.Receipt, error) {
	key, err := timer.NewKey()
	if err != nil {
		return timer.Receipt{}, err
	}
	return m.put(timer.ID{Key: key}, t)
}

func (m *memory) CreateOnce(_ context.Context, key string, body []byte, t timer.Timer) (timer.Receipt, error) {
	had, known := m.bodies[key]
	if known && had != string(body) {
		return timer.Receipt{}, timer.ErrKeyReused
	}
	m.bodies[key] = string(body)
	receipt, err := m.put(timer.ID{Key: timer.OnceKey(key)}, t)
	if receipt.Replayed = known; known && m.over {
		receipt.Over, receipt.Copies = true, 0
	}
	return receipt, err
}

func (m *memory) CreateAll(ctx context.Context, all []timer.Creation) {
	for i := range all {
		switch n := &all[i]; {
		case n.Err != nil:
		case n.IdempotencyKey != "":
			n.Receipt, n.Err = m.CreateOnce(ctx, n.IdempotencyKey, n.Body, n.Timer)
		default:
			n.Receipt, n.Err = m.Create(ctx, n.Timer)
		}
	}
}

func (m *memory) ReplaceIf(_ context.Context, id timer.ID, t timer.Timer, cond timer.Condition) (timer.Receipt, error) {
	if err := m.judge(id, cond); err != nil {
		return timer.Receipt{}, err
	}
	receipt, err := m.put(id, t)
	receipt.InFlight, receipt.Unreached = true, 1
	return receipt, err
}

func (m *memory) Patch(_ context.Context, id timer.ID, cond timer.Condition, change func(*timer.Timer) (bool, error)) (timer.Receipt, error) {
	if err := m.judge(id, cond); err != nil {
		return timer.Receipt{}, err
	}
	found, ok := m.records[id.Key]
	if !ok {
		return timer.Receipt{}, timer.ErrNotFound
	}
	if _, err := change(&found.Record.Timer); err != nil {
		return timer.Receipt{}, err
	}
	receipt, err := m.put(id, found.Record.Timer)
	receipt.InFlight, receipt.Unreached = true, 1
	return receipt, err
}

func (m *memory) judge(id timer.ID, cond timer.Condition) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if present := m.records[id.Key].Record.State.Version; !cond.Met(present) {
		return fmt.Errorf("judge: %w", &timer.ConditionError{Present: present})
	}
	return nil
}

func (m *memory) DeleteIf(_ context.Context, id timer.ID, cond timer.Condition) (timer.Receipt, error) {
	if err := m.judge(id, cond); err != nil {
		return timer.Receipt{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.records, id.Key)
	return timer.Receipt{ID: id, InFlight: true, Unreached: 2}, m.fails
}

func (m *memory) Lookup(_ context.Context, id timer.ID) (store.ReadResult, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found, ok := m.records[id.Key]
	if !ok {
		return store.ReadResult{}, timer.ErrNotFound
	}
	return found, m.fails
}

// counted counts the connections that were accepted.
type counted struct {
	net.Listener
	n atomic.Int64
}

func (l *counted) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.n.Add(1)
	}
	return c, err
}

// connect starts a real server with m, and makes a client of the server. The description checks the
// client's traffic.
func connect(t *testing.T, m *memory, options ...client.Option) (*client.Client, *counted) {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, listener := api.New(api.Config{Timers: m, Deliveries: m}), &counted{Listener: ln}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	transport := &http.Transport{}
	checked := &http.Client{Transport: openapitest.Transport(t, api.OpenAPI(), transport)}
	c, err := client.New("http://"+ln.Addr().String()+"/", append(options, client.WithHTTPClient(checked))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := errors.Join(server.Shutdown(ctx), <-served); err != nil {
			t.Error(err)
		}
	})
	return c, listener
}

func TestOperations(t *testing.T) {
	m := newMemory()
	c, listener := connect(t, m)
	ctx := t.Context()
	asked := client.Timer{
		Interval: 1500 * time.Millisecond, RepeatFor: time.Hour, URI: "http://127.0.0.1:9000/hello?a=1&b=<2>", Opaque: "tea\x00é\u2028",
		ReplicationFactor: 3, Tags: []client.Tag{{Type: "CALL", Count: 2}, {Type: "BREW"}},
		Method: "PATCH", Headers: map[string]string{"Content-Type": "application/json", "X-Empty": ""}, Timeout: 2500 * time.Millisecond, ExpiresAfter: time.Minute,
		Retry: client.Retry{Attempts: 8, First: 100 * time.Millisecond, Factor: 1.5, Longest: time.Hour},
	}
	stored := asked
	stored.Tags = []client.Tag{{Type: "CALL", Count: 2}, {Type: "BREW", Count: 1}}

	receipt, err := c.Create(ctx, asked)
	if err != nil {
		t.Fatal(err)
	}
	want := client.Receipt{ID: receipt.Key + "-3-0000000000008421", Key: receipt.Key, Due: epoch.Add(asked.Interval), Copies: 2, ETag: `"0000000000000001"`}
	if diff := cmp.Diff(want, receipt); diff != "" || len(receipt.Key) != 32 {
		t.Errorf("Create (-want +have):\n%s", diff)
	}

	if receipt, err = c.Replace(ctx, "tea", asked); err != nil {
		t.Fatal(err)
	}
	want = client.Receipt{ID: "tea-3-0000000000008421", Key: "tea", Due: epoch.Add(asked.Interval), Copies: 2, InFlight: true, Unreached: 1, ETag: `"0000000000000002"`}
	if diff := cmp.Diff(want, receipt); diff != "" {
		t.Errorf("Replace (-want +have):\n%s", diff)
	}

	found, err := c.Lookup(ctx, receipt.ID)
	if err != nil {
		t.Fatal(err)
	}
	wantFound := client.Stored{ID: receipt.ID, Key: "tea", ETag: receipt.ETag, Timer: stored, State: client.Waiting, Due: epoch.Add(asked.Interval), Sequence: 1}
	if diff := cmp.Diff(wantFound, found); diff != "" {
		t.Errorf("Lookup (-want +have):\n%s", diff)
	}

	ended, err := c.Delete(ctx, receipt.ID)
	if diff := cmp.Diff(client.Deletion{InFlight: true, Unreached: 2}, ended); err != nil || diff != "" {
		t.Errorf("Delete: %v (-want +have):\n%s", err, diff)
	}
	if _, err := c.Lookup(ctx, "tea"); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("Lookup of what is gone: %v", err)
	}
	if n := listener.n.Load(); n != 1 {
		t.Errorf("used %d connections one after another, want 1", n)
	}
}

func TestLookupOfFailed(t *testing.T) {
	m := newMemory()
	c, _ := connect(t, m)
	if _, err := c.Replace(t.Context(), "tea", client.Timer{At: epoch, URI: "http://a/b"}); err != nil {
		t.Fatal(err)
	}
	record := m.records["tea"]
	record.Record.State.Attempt = 2
	record.Record.Failure = store.Failure{Node: "n", At: epoch.Add(time.Second), Reason: "status 503"}
	m.records["tea"] = record
	found, err := c.Lookup(t.Context(), "tea")
	if err != nil {
		t.Fatal(err)
	}
	want := client.Stored{
		ID: "tea-2-0000000000008421", Key: "tea", ETag: `"0000000000000001"`, Timer: client.Timer{At: epoch, URI: "http://a/b", ReplicationFactor: 2},
		State: client.Retrying, Due: epoch, Sequence: 1, Attempts: 2, LastFailure: &client.Failure{At: epoch.Add(time.Second), Reason: "status 503"},
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("Lookup (-want +have):\n%s", diff)
	}
}

func TestConditions(t *testing.T) {
	m := newMemory()
	c, _ := connect(t, m)
	ctx, asked := t.Context(), client.Timer{Interval: time.Second, URI: "http://a/b"}
	first, err := c.ReplaceIf(ctx, "tea", client.Condition{Absent: true}, asked)
	if err != nil || first.ETag == "" {
		t.Fatalf("ReplaceIf of what is not there: %+v, %v", first, err)
	}
	second, err := c.ReplaceIf(ctx, "tea", client.Condition{ETag: first.ETag}, asked)
	if err != nil || second.ETag == first.ETag {
		t.Errorf("ReplaceIf of the version that is there: %+v, %v", second, err)
	}
	for _, cond := range []client.Condition{{Absent: true}, {ETag: first.ETag}} {
		if _, err := c.ReplaceIf(ctx, "tea", cond, asked); !errors.Is(err, client.ErrConditionFailed) {
			t.Errorf("ReplaceIf on %+v: %v, want that the condition does not hold", cond, err)
		}
	}
	if _, err := c.DeleteIf(ctx, "tea", client.Condition{ETag: first.ETag}); !errors.Is(err, client.ErrConditionFailed) {
		t.Errorf("DeleteIf of an earlier version: %v", err)
	}
	if _, err := c.DeleteIf(ctx, "tea", client.Condition{Exists: true}); err != nil {
		t.Errorf("DeleteIf of what is there: %v", err)
	}
	if _, err := c.ReplaceIf(ctx, "tea", client.Condition{Exists: true}, asked); !errors.Is(err, client.ErrConditionFailed) {
		t.Errorf("ReplaceIf of what is gone: %v", err)
	}
	for _, cond := range []client.Condition{{}, {ETag: first.ETag, Exists: true}, {Exists: true, Absent: true}} {
		if _, err := c.ReplaceIf(ctx, "tea", cond, asked); err == nil || errors.Is(err, client.ErrConditionFailed) {
			t.Errorf("ReplaceIf on %+v: %v, want that the condition is refused", cond, err)
		}
	}
}

// A write on a condition that may have been carried out is not repeated.
func TestConditionalWritesAreNotRepeated(t *testing.T) {
	for fails, want := range map[error]int64{timer.ErrUnavailable: 1, timer.ErrUndecided: 3} {
		m := newMemory()
		m.fails = fails
		c, listener := connect(t, m, client.WithTries(3))
		_, err := c.ReplaceIf(t.Context(), "tea", client.Condition{Absent: true}, client.Timer{URI: "http://a/b"})
		if problem, ok := errors.AsType[*client.Problem](err); !ok || problem.Status != http.StatusServiceUnavailable || m.puts != want {
			t.Errorf("%v: %v after %d requests (%d connections), want %d", fails, err, m.puts, listener.n.Load(), want)
		}
	}
}

func TestCreateOnce(t *testing.T) {
	m := newMemory()
	c, _ := connect(t, m)
	asked := client.Timer{Interval: time.Second, URI: "http://a/b"}
	first, err := c.CreateOnce(t.Context(), "key 1", asked)
	if err != nil || first.Replayed {
		t.Fatalf("first: %+v, %v", first, err)
	}
	for _, m.over = range []bool{false, true} {
		again, err := c.CreateOnce(t.Context(), "key 1", asked)
		if err != nil || !again.Replayed || again.ID != first.ID || again.Over != m.over || (again.Copies == 0) != m.over {
			t.Errorf("again: %+v, %v; want %s, over %v", again, err, first.ID, m.over)
		}
	}
	asked.Opaque = "other"
	_, err = c.CreateOnce(t.Context(), "key 1", asked)
	if problem, ok := errors.AsType[*client.Problem](err); !ok || problem.Status != 422 || problem.Code != "idempotency-key-reused" {
		t.Errorf("with another body: %v", err)
	}
	if _, err = c.CreateOnce(t.Context(), "", asked); err == nil {
		t.Error("an empty key passes")
	}
}

func TestProblems(t *testing.T) {
	m := newMemory()
	c, _ := connect(t, m, client.WithTries(1))
	_, err := c.Create(t.Context(), client.Timer{Interval: -time.Millisecond, URI: "http://a/b"})
	want := &client.Problem{Status: 400, Code: "interval-negative", Pointer: "/timing/interval", Detail: "interval is negative; give a number of seconds from 0 up"}
	problem, _ := errors.AsType[*client.Problem](err)
	if diff := cmp.Diff(want, problem); diff != "" {
		t.Errorf("problem (-want +have):\n%s", diff)
	}
	const text = "create timer: status 400 interval-negative at /timing/interval: interval is negative; give a number of seconds from 0 up"
	if err == nil || err.Error() != text {
		t.Errorf("have %v, want %s", err, text)
	}
	m.fails = timer.ErrUnavailable
	_, err = c.Replace(t.Context(), "tea", client.Timer{URI: "http://a/b"})
	if problem, _ = errors.AsType[*client.Problem](err); problem == nil || problem.Code != "store-unavailable" || problem.RetryAfter != timer.RetryAfter {
		t.Errorf("have %v, want that the store is unavailable, and for how long", err)
	}
	for _, id := range []string{"", ".", ".."} {
		if _, err := c.Delete(t.Context(), id); err == nil || errors.As(err, &problem) {
			t.Errorf("id %q: %v", id, err)
		}
	}
	if _, err := c.Lookup(t.Context(), "a/b c"); !errors.As(err, &problem) || errors.Is(err, client.ErrNotFound) {
		t.Errorf("an id that can't be: %v", err)
	}
}

// A stored timer equals the timer that was asked for, rounded up to the millisecond.
func TestTimersRoundTrip(t *testing.T) {
	c, _ := connect(t, newMemory())
	up := func(d time.Duration) time.Duration {
		if whole := d.Truncate(time.Millisecond); whole < d {
			return whole + time.Millisecond
		}
		return d
	}
	rapid.Check(t, func(t *rapid.T) {
		asked := client.Timer{
			URI: "http://a/b", Opaque: rapid.String().Draw(t, "opaque"), ReplicationFactor: rapid.IntRange(1, 16).Draw(t, "factor"),
		}
		if rapid.Bool().Draw(t, "recurring") {
			asked.Interval = time.Duration(rapid.Int64Range(1e8, 1e18).Draw(t, "interval"))
			asked.RepeatFor = asked.Interval + time.Duration(rapid.Int64Range(0, 2e18).Draw(t, "more"))
		} else {
			asked.Interval = time.Duration(rapid.Int64Range(0, int64(timer.MaxInterval)).Draw(t, "interval"))
		}
		receipt, err := c.Replace(context.Background(), "k-", asked)
		if err != nil {
			t.Fatal(err)
		}
		found, err := c.Lookup(context.Background(), receipt.ID)
		if err != nil {
			t.Fatal(err)
		}
		asked.Interval, asked.RepeatFor = up(asked.Interval), up(asked.RepeatFor)
		if diff := cmp.Diff(asked, found.Timer); diff != "" {
			t.Fatalf("stored (-want +have):\n%s", diff)
		}
	})
}
