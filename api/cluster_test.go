package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chronos/api/apitest"
	"chronos/scheduler/cluster"
	"chronos/scheduler/forecast"
	"chronos/scheduler/timer"
)

// fakeCluster answers with what the test says.
type fakeCluster struct {
	status cluster.Status
	load   forecast.Load
	query  forecast.Query // of the last request
	asked  int            // requests for a load
	err    error
	within time.Duration // until the deadline of the last request
}

var _ Cluster = (*fakeCluster)(nil)

func (f *fakeCluster) Status(ctx context.Context) (cluster.Status, error) {
	f.note(ctx)
	return f.status, f.err
}

func (f *fakeCluster) Load(ctx context.Context, q forecast.Query) (forecast.Load, error) {
	f.note(ctx)
	f.query = q
	f.asked++
	return f.load, f.err
}

func (f *fakeCluster) note(ctx context.Context) {
	if until, is := ctx.Deadline(); is {
		f.within = time.Until(until)
	}
}

// someStatus is a cluster with a shard that is away, and with hostile texts.
func someStatus() cluster.Status {
	copies, swept := int64(20017), 1.0
	late := cluster.Lateness{P50: 1500 * time.Microsecond, P99: 4 * time.Millisecond, P999: 7 * time.Millisecond, Max: time.Second}
	return cluster.Status{
		View: "2f1c86d0a7b9e453", Epoch: 4,
		Nodes: []cluster.Node{{
			ID: "n1", Host: "<b>\x1b[2J\u202e", Version: "1.4.0", Format: 2, Public: "10.0.0.1:7253", Admin: "127.0.0.1:7254", Started: fakeEpoch(),
			Seen: 412 * time.Millisecond, PerSecond: cluster.Rates{Fired: 503.2, Failed: 1.0 / 3}, InFlight: 3, Late: late, Self: true,
		}, {ID: "n2"}},
		Shards: []cluster.Shard{{
			Name: "a", URL: "redis://u:hush@10.0.0.1:6379/0", State: "active", Up: true, Copies: &copies, Swept: &swept, SweepLeft: time.Minute, OldestDue: 250 * time.Millisecond,
			ClockOffset: -400 * time.Microsecond, Persists: "aof", Evicts: true, Version: "7.0.15", UsedMemory: 1 << 20, MaxMemory: 1 << 21, Letters: 2,
		}, {Name: "b", URL: "redis://10.0.0.2:6379/0", State: "active", Persists: "unknown", Problem: "dial http://u:hush@h:\nrefused"}},
		Timers: cluster.Timers{About: 10000, Copies: 20017, Sampled: 512}, PerSecond: cluster.Rates{Fired: 503.2, Failed: 0.333333}, InFlight: 3, Late: late, Dead: 2,
		Destinations: []cluster.Destination{{
			Name: "https://api.example.com:443", PerSecond: cluster.Rates{Fired: 503}, InFlight: 3, Waiting: 1, P99: 41 * time.Millisecond, Last: "status 503",
		}, {Name: "http://h:80"}},
		Alarms:    []cluster.Alarm{{Code: cluster.ShardDown, Text: "this node does not reach b", Shard: "b"}, {Code: cluster.VersionsMixed, Text: "nodes of two versions"}},
		Unreached: []string{"b"},
	}
}

func TestStatusIsShown(t *testing.T) {
	fake := &fakeCluster{status: someStatus()}
	admin := NewAdmin(AdminConfig{Cluster: fake, OpenReads: true})
	const want = `{"view":"2f1c86d0a7b9e453","epoch":4,"nodes":[` +
		`{"id":"n1","self":true,"host":"<b>?[2J?","version":"1.4.0","format":2,"public":"10.0.0.1:7253","admin":"127.0.0.1:7254","started":"2030-01-31T12:00:00.000Z","seen_ms":412,` +
		`"fired_per_s":503.2,"failed_per_s":0.33,"in_flight":3,"late_ms":{"p50":1.5,"p99":4,"p999":7,"max":1000}},` +
		`{"id":"n2","self":false,"host":"","version":"","format":0,"public":"","admin":"","started":null,"seen_ms":0,"fired_per_s":0,"failed_per_s":0,"in_flight":0,"late_ms":{"p50":0,"p99":0,"p999":0,"max":0}}],` +
		`"shards":[{"name":"a","url":"redis://***@10.0.0.1:6379/0","state":"active","up":true,"copies":20017,"swept":1,"sweep_left_seconds":60,"oldest_due_seconds":0.25,"clock_offset_ms":-0.4,` +
		`"persists":"aof","evicts":true,"redis_version":"7.0.15","used_memory":1048576,"max_memory":2097152,"dead":2,"problem":null},` +
		`{"name":"b","url":"redis://10.0.0.2:6379/0","state":"active","up":false,"copies":null,"swept":null,"sweep_left_seconds":0,"oldest_due_seconds":0,"clock_offset_ms":0,` +
		`"persists":"unknown","evicts":false,"redis_version":null,"used_memory":null,"max_memory":0,"dead":0,"problem":"dial http://***@h:?refused"}],` +
		`"timers":{"about":10000,"copies":20017,"sampled":512},"fired_per_s":503.2,"failed_per_s":0.33,"in_flight":3,"late_ms":{"p50":1.5,"p99":4,"p999":7,"max":1000},` +
		`"dead":{"total":2},"alarms":[{"code":"shard-down","text":"this node does not reach b","shard":"b"},{"code":"versions-mixed","text":"nodes of two versions","shard":null}],"unreached":["b"]}`
	got := askAdmin(t, admin, "GET", "/status", "")
	if diff := cmp.Diff(want+"\n", string(got.Body)); diff != "" || got.Status != http.StatusOK || got.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v (-want +have):\n%s", got.Status, got.Header, diff)
	}
	if fake.within <= 0 || fake.within > 2*time.Second {
		t.Errorf("the request may take %v, want 2s at most", fake.within)
	}
	fake.status = cluster.Status{}
	got = askAdmin(t, admin, "GET", "/status", "")
	if text := string(got.Body); strings.Contains(text, "[null]") || !strings.Contains(text, `"nodes":[],"shards":[],`) || !strings.Contains(text, `"alarms":[],"unreached":[]}`) {
		t.Errorf("of nothing: %s", text)
	}
	if got := askAdmin(t, admin, "HEAD", "/status", ""); got.Status != http.StatusOK {
		t.Errorf("HEAD: %d", got.Status)
	}
}

func TestClusterErrors(t *testing.T) {
	fake := &fakeCluster{}
	admin := NewAdmin(AdminConfig{Cluster: fake, OpenReads: true})
	for _, c := range []struct {
		err    error
		status int
		code   string
	}{
		{fmt.Errorf("%w: hush", timer.ErrUnavailable), 503, "store-unavailable"},
		{context.DeadlineExceeded, 503, "store-unavailable"},
		{errors.New("hush"), 500, "internal"},
	} {
		fake.err = c.err
		for _, path := range []string{"/status", "/load"} {
			apitest.WantProblem(t, askAdmin(t, admin, "GET", path, ""), c.status, c.code, apitest.NoPointer)
		}
	}
}

func TestLoadIsShown(t *testing.T) {
	fake := &fakeCluster{load: forecast.Load{From: fakeEpoch(), Step: time.Minute, Copies: []int64{4, 0}, Timers: []int64{2, 0}, Unreached: []string{"b"}}}
	admin := NewAdmin(AdminConfig{Cluster: fake, OpenReads: true})
	const want = `{"from":"2030-01-31T12:00:00.000Z","step_ms":60000,"copies":[4,0],"timers_about":[2,0],"unreached":["b"]}`
	got := askAdmin(t, admin, "GET", "/load", "")
	if diff := cmp.Diff(want+"\n", string(got.Body)); diff != "" || got.Status != http.StatusOK || got.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v (-want +have):\n%s", got.Status, got.Header, diff)
	}
	if fake.within <= 0 || fake.within > 2*time.Second {
		t.Errorf("the request may take %v, want 2s at most", fake.within)
	}
	fake.load = forecast.Load{From: fakeEpoch(), Step: time.Second}
	if got := askAdmin(t, admin, "GET", "/load", ""); !strings.Contains(string(got.Body), `"copies":[],"timers_about":[],"unreached":[]}`) {
		t.Errorf("of nothing: %s", got.Body)
	}
}

func TestLoadQueries(t *testing.T) {
	fake := &fakeCluster{load: forecast.Load{From: fakeEpoch(), Step: time.Minute}}
	admin := NewAdmin(AdminConfig{Cluster: fake, OpenReads: true})
	for query, want := range map[string]forecast.Query{
		"":                                   {Step: time.Minute, Buckets: 60},
		"?step=1s&buckets=1":                 {Step: time.Second, Buckets: 1},
		"?step=10s;buckets=168":              {Step: 10 * time.Second, Buckets: 168},
		"?step=60s":                          {Step: time.Minute, Buckets: 60},
		"?step=1m":                           {Step: time.Minute, Buckets: 60},
		"?step=1h&from=2030-01-31T12:00:00Z": {From: fakeEpoch(), Step: time.Hour, Buckets: 60},
		"?from=2030-01-31T13:00:00%2B01:00":  {From: fakeEpoch(), Step: time.Minute, Buckets: 60},
		"?from=0001-01-01T00:00:00Z":         {From: time.UnixMilli(0).UTC(), Step: time.Minute, Buckets: 60},
	} {
		if got := askAdmin(t, admin, "GET", "/load"+query, ""); got.Status != http.StatusOK {
			t.Errorf("%s: %d %s", query, got.Status, got.Body)
		}
		if diff := cmp.Diff(want, fake.query); diff != "" {
			t.Errorf("%s (-want +have):\n%s", query, diff)
		}
	}
	fake.asked = 0
	for query, code := range map[string]string{
		"step=2s": "step-unknown", "step=60": "step-unknown", "step=-1s": "step-unknown", "step=1d": "step-unknown", "step=0s": "step-unknown", "step=1s&step=1s": "parameter-duplicate",
		"step=": "parameter-empty", "step": "parameter-empty", "buckets=0": "buckets-range", "buckets=169": "buckets-range", "buckets=-1": "buckets-range", "buckets=1.5": "buckets-range",
		"buckets=1e2": "buckets-range", "buckets=99999999999999999999": "buckets-range", "from=now": "from-malformed", "from=2030-01-31": "from-malformed",
		"from=2030-01-31T13:00:00+01:00": "from-malformed", "from=2030-02-31T13:00:00Z": "from-malformed", "from=9999-12-31T23:59:59-01:00": "from-malformed",
		"steps=1s": "parameter-unknown", "Step=1s": "parameter-unknown", "=1": "parameter-unknown", "%zz": "query-malformed", "from=%ff": "query-malformed",
	} {
		apitest.WantProblem(t, askAdmin(t, admin, "GET", "/load?"+query, ""), 400, code, apitest.NoPointer)
	}
	if fake.asked != 0 {
		t.Errorf("%d refused requests were carried out", fake.asked)
	}
}

// The refusal of an unknown parameter names the parameter, unless the name is none that a person would
// misspell.
func TestUnknownParametersAreNamed(t *testing.T) {
	admin := NewAdmin(AdminConfig{Cluster: &fakeCluster{}, OpenReads: true})
	for query, want := range map[string]string{
		"steps=1s": "the unknown parameter steps; known are from, step, buckets", "Due_After=x": "the unknown parameter Due_After;",
		"chr_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=1": "the unknown parameter (of 47 bytes);", "%1b[2J=1": "the unknown parameter (of 4 bytes);", "<b>=1": "(of 3 bytes)",
	} {
		got := askAdmin(t, admin, "GET", "/load?"+query, "")
		if p := apitest.Parse[apitest.Problem](t, got.Body); !strings.Contains(p.Detail, want) {
			t.Errorf("%s: %q, want %q", query, p.Detail, want)
		}
	}
}
