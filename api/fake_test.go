package api

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"chronos/api/apitest"
	"chronos/scheduler/resync"
	"chronos/scheduler/statistics"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// fakeTimers keeps timers in memory and checks timers as the scheduler does.
type fakeTimers struct {
	mu      sync.Mutex
	records map[string]store.ReadResult
	// before is called at the start of each operation; the error is the answer.
	before func(ctx context.Context, operation string, id timer.ID) error
	// Contents of the receipts of PUT, PATCH and DELETE.
	inFlight  bool
	unreached int
	bodies    map[string]string // by idempotency key
	// page is the answer of Resync, query the last query of Resync, and dropped the input of
	// DropReferences.
	page    resync.Page
	query   resync.Query
	dropped map[string][]string // keys by shard
	counted statistics.Sums     // except the tags
}

var _ Timers = (*fakeTimers)(nil)

// fakeEpoch is the fake's time.
func fakeEpoch() time.Time { return time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC) }

func (f *fakeTimers) start(ctx context.Context, operation string, id timer.ID) error {
	if f.before == nil {
		return nil
	}
	return f.before(ctx, operation, id)
}

func (f *fakeTimers) Create(ctx context.Context, t timer.Timer) (timer.Receipt, error) {
	if err := f.start(ctx, "create", timer.ID{}); err != nil {
		return timer.Receipt{}, err
	}
	key, err := timer.NewKey()
	if err != nil {
		return timer.Receipt{}, err
	}
	return f.store(timer.ID{Key: key}, t)
}

// CreateOnce keeps the timer under the key that the idempotency key makes.
func (f *fakeTimers) CreateOnce(ctx context.Context, key string, body []byte, t timer.Timer) (timer.Receipt, error) {
	if err := f.start(ctx, "create once", timer.ID{Key: key}); err != nil {
		return timer.Receipt{}, err
	}
	known, same := f.remember(key, string(body))
	if !same {
		return timer.Receipt{}, fmt.Errorf("create timer: %w", timer.ErrKeyReused)
	}
	receipt, err := f.store(timer.ID{Key: timer.OnceKey(key)}, t)
	receipt.Replayed = known
	return receipt, err
}

// createWithin creates a timer under a prefix.
func (f *fakeTimers) createWithin(ctx context.Context, n *timer.Creation) (timer.Receipt, error) {
	if err := f.start(ctx, "create within "+n.Prefix, timer.ID{Key: n.IdempotencyKey}); err != nil {
		return timer.Receipt{}, err
	}
	known, key := false, timer.OnceKey(n.IdempotencyKey)
	if n.IdempotencyKey == "" {
		key, _ = timer.NewKey()
	} else if had, same := f.remember(n.Prefix+n.IdempotencyKey, string(n.Body)); !same {
		return timer.Receipt{}, fmt.Errorf("create timer: %w", timer.ErrKeyReused)
	} else {
		known = had
	}
	receipt, err := f.store(timer.ID{Key: n.Prefix + key}, n.Timer)
	receipt.Replayed = known
	return receipt, err
}

func (f *fakeTimers) remember(key, body string) (known, same bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	had, known := f.bodies[key]
	if !known {
		if f.bodies == nil {
			f.bodies = map[string]string{}
		}
		f.bodies[key], had = body, body
	}
	return known, had == body
}

func (f *fakeTimers) CreateAll(ctx context.Context, all []timer.Creation) {
	for i := range all {
		switch n := &all[i]; {
		case n.Err != nil:
		case n.Prefix != "":
			n.Receipt, n.Err = f.createWithin(ctx, n)
		case n.IdempotencyKey != "":
			n.Receipt, n.Err = f.CreateOnce(ctx, n.IdempotencyKey, n.Body, n.Timer)
		default:
			n.Receipt, n.Err = f.Create(ctx, n.Timer)
		}
	}
}

func (f *fakeTimers) ReplaceIf(ctx context.Context, id timer.ID, t timer.Timer, cond timer.Condition) (timer.Receipt, error) {
	if err := f.start(ctx, "replace", id); err != nil {
		return timer.Receipt{}, err
	}
	if err := f.judge(id, cond); err != nil {
		return timer.Receipt{}, err
	}
	had := id.RF
	if had == 0 {
		had = timer.DefaultReplicationFactor
	}
	switch t.ReplicationFactor {
	case 0:
		t.ReplicationFactor = had
	case had:
	default:
		return timer.Receipt{}, fmt.Errorf("replace timer: %w", factorChanged())
	}
	receipt, err := f.store(id, t)
	receipt.InFlight, receipt.Unreached = f.inFlight, f.unreached
	return receipt, err
}

func factorChanged() error {
	return &timer.InvalidError{Pointer: "/reliability/replication-factor", Code: "replication-factor-changed", Detail: "it can't be changed"}
}

func (f *fakeTimers) store(id timer.ID, t timer.Timer) (timer.Receipt, error) {
	if err := t.Validate(); err != nil {
		return timer.Receipt{}, fmt.Errorf("store timer: %w", err)
	}
	id.RF, id.Hint = t.ReplicationFactor, 0x8421
	due := t.At
	if due.IsZero() {
		due = fakeEpoch().Add(t.Interval)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.records == nil {
		f.records = map[string]store.ReadResult{}
	}
	f.records[id.Key] = store.ReadResult{
		Record: store.Record{ID: id, Timer: t, State: timer.State{Version: f.records[id.Key].Record.State.Version + 1, Seq: 1}}, Look: due, Due: due,
	}
	return timer.Receipt{ID: id, Version: f.records[id.Key].Record.State.Version, Due: due, Copies: 1}, nil
}

// judge judges a condition as the scheduler does.
func (f *fakeTimers) judge(id timer.ID, cond timer.Condition) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if present := f.records[id.Key].Record.State.Version; !cond.Met(present) {
		return fmt.Errorf("judge: %w", &timer.ConditionError{Present: present})
	}
	return nil
}

// Patch raises the version, whether or not the timer begins anew.
func (f *fakeTimers) Patch(ctx context.Context, id timer.ID, cond timer.Condition, change func(*timer.Timer) (bool, error)) (timer.Receipt, error) {
	if err := f.start(ctx, "patch", id); err != nil {
		return timer.Receipt{}, err
	}
	if err := f.judge(id, cond); err != nil {
		return timer.Receipt{}, err
	}
	found, there := f.get(id.Key)
	if !there {
		return timer.Receipt{}, fmt.Errorf("patch timer: %w", timer.ErrNotFound)
	}
	patched := found.Record.Timer
	if _, err := change(&patched); err != nil {
		return timer.Receipt{}, fmt.Errorf("patch timer: %w", err)
	}
	if had := found.Record.Timer.ReplicationFactor; patched.ReplicationFactor == 0 {
		patched.ReplicationFactor = had
	} else if patched.ReplicationFactor != had {
		return timer.Receipt{}, fmt.Errorf("patch timer: %w", factorChanged())
	}
	receipt, err := f.store(id, patched)
	receipt.InFlight, receipt.Unreached = f.inFlight, f.unreached
	return receipt, err
}

func (f *fakeTimers) DeleteIf(ctx context.Context, id timer.ID, cond timer.Condition) (timer.Receipt, error) {
	if err := f.start(ctx, "delete", id); err != nil {
		return timer.Receipt{}, err
	}
	if err := f.judge(id, cond); err != nil {
		return timer.Receipt{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.records, id.Key)
	return timer.Receipt{ID: id, Copies: 1, InFlight: f.inFlight, Unreached: f.unreached}, nil
}

func (f *fakeTimers) Lookup(ctx context.Context, id timer.ID) (store.ReadResult, error) {
	if err := f.start(ctx, "lookup", id); err != nil {
		return store.ReadResult{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	found, ok := f.records[id.Key]
	if !ok {
		return store.ReadResult{}, fmt.Errorf("look up timer: %w", timer.ErrNotFound)
	}
	return found, nil
}

func (f *fakeTimers) Resync(ctx context.Context, q resync.Query) (resync.Page, error) {
	if err := f.start(ctx, "resync", timer.ID{}); err != nil {
		return resync.Page{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.query = q
	return f.page, nil
}

func (f *fakeTimers) DropReferences(ctx context.Context, shard string, keys []string) error {
	if err := f.start(ctx, "drop references", timer.ID{}); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dropped == nil {
		f.dropped = map[string][]string{}
	}
	f.dropped[shard] = append(f.dropped[shard], keys...)
	return nil
}

func (f *fakeTimers) Statistics(ctx context.Context) (statistics.Sums, error) {
	if err := f.start(ctx, "statistics", timer.ID{}); err != nil {
		return statistics.Sums{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	found := f.counted
	found.Tags = map[string]int64{}
	for _, r := range f.records {
		for _, tag := range r.Record.Timer.Tags {
			found.Tags[tag.Type] += int64(tag.Count)
		}
	}
	return found, nil
}

// get returns the timer stored under a key.
func (f *fakeTimers) get(key string) (store.ReadResult, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	found, ok := f.records[key]
	return found, ok
}

// change edits the timer stored under a key.
func (f *fakeTimers) change(key string, edit func(*store.ReadResult)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	found := f.records[key]
	edit(&found)
	f.records[key] = found
}

// ask sends a request through the whole server except the connection. A PATCH is a merge patch unless the
// headers have a type.
func ask(t testing.TB, s *Server, method, path, body string, headers ...string) apitest.Answer {
	t.Helper()
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	req := httptest.NewRequestWithContext(context.Background(), method, path, content)
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	if method == http.MethodPatch && !slices.Contains(headers, "Content-Type") {
		req.Header.Set("Content-Type", mergePatch)
	}
	resp, err := s.app.Test(req, -1)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close() //nolint:errcheck // read from memory
	read, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("read answer: %v", err)
	}
	wantDescribed(t, req, body, resp, read)
	return apitest.Answer{Status: resp.StatusCode, Header: resp.Header, Body: read}
}

// receiptView is the answer to a POST or PUT.
type receiptView struct {
	ID      string   `json:"id"`
	Key     string   `json:"key"`
	Due     string   `json:"due"`
	Copies  int      `json:"copies"`
	State   string   `json:"state"`
	Ignored []string `json:"ignored"`
}

// constantTimers answers every write at once.
type constantTimers struct{ receipt timer.Receipt }

func (c constantTimers) Create(context.Context, timer.Timer) (timer.Receipt, error) {
	return c.receipt, nil
}

func (c constantTimers) CreateOnce(context.Context, string, []byte, timer.Timer) (timer.Receipt, error) {
	return c.receipt, nil
}

func (c constantTimers) CreateAll(_ context.Context, all []timer.Creation) {
	for i := range all {
		if all[i].Err == nil {
			all[i].Receipt = c.receipt
		}
	}
}

func (c constantTimers) ReplaceIf(context.Context, timer.ID, timer.Timer, timer.Condition) (timer.Receipt, error) {
	return c.receipt, nil
}

func (c constantTimers) Patch(context.Context, timer.ID, timer.Condition, func(*timer.Timer) (bool, error)) (timer.Receipt, error) {
	return c.receipt, nil
}

func (c constantTimers) DeleteIf(context.Context, timer.ID, timer.Condition) (timer.Receipt, error) {
	return c.receipt, nil
}

func (constantTimers) Lookup(context.Context, timer.ID) (store.ReadResult, error) {
	return store.ReadResult{}, timer.ErrNotFound
}

func (constantTimers) Resync(context.Context, resync.Query) (resync.Page, error) {
	return resync.Page{}, timer.ErrShardUnknown
}

func (constantTimers) DropReferences(context.Context, string, []string) error {
	return timer.ErrShardUnknown
}

func (constantTimers) Statistics(context.Context) (statistics.Sums, error) {
	return statistics.Sums{}, nil
}

// counted are timers that count operations.
func counted() (*fakeTimers, *atomic.Int64) {
	var n atomic.Int64
	return &fakeTimers{before: func(context.Context, string, timer.ID) error {
		n.Add(1)
		return nil
	}}, &n
}
