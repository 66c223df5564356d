package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"chronos/cmd/internal/localtoken"
	"chronos/scheduler/verify/heldup"
	"chronos/scheduler/verify/testkit"
)

// TestDeadline: no message comes before its deadline less the advance, and a late
// message comes at once.
func TestDeadline(t *testing.T) {
	t.Parallel()
	for name, advance := range map[string]time.Duration{"to the point": 0, "in advance": 500 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSetup(t)
			s.start("CHRONOS_KAFKA_ADVANCE=" + advance.String())
			watch, begun := heldup.Begin(t), time.Now()
			deadlines := make(map[string]time.Time)
			for i := range 20 {
				id := fmt.Sprint(i)
				deadlines[id] = soon(time.Second + time.Duration(i)*37*time.Millisecond)
				s.produce(on(int32(i%partitions), newMessage(id, deadlines[id], id)))
			}
			most := time.Duration(-1 << 62)
			for _, r := range s.consume(20) {
				early := deadlines[string(r.Value)].Sub(r.Timestamp) // the timestamp is when the client took the record
				if most = max(most, early); early > advance {
					t.Errorf("%s came %v before its deadline, want %v at most", r.Value, early, advance)
				}
			}
			watch.AtMost(t, begun, "from the advance to the earliest message", advance-most, 250*time.Millisecond)
			begun = time.Now()
			s.produce(newMessage("late", soon(-time.Hour), "late"), newMessage("almost", soon(advance-time.Millisecond), "almost"))
			s.consume(22)
			t.Log("late messages took", time.Since(begun))
		})
	}
}

// TestAdvanceFollowsTheWayToTheOutput: the measured advance is zero at first, and then as
// long as the brokers take.
func TestAdvanceFollowsTheWayToTheOutput(t *testing.T) {
	t.Parallel()
	const way, most = 30 * time.Millisecond, 50 * time.Millisecond
	s := newSetup(t)
	s.cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		s.cluster.KeepControl()
		s.cluster.SleepControl(func() { <-time.After(way) })
		return nil, nil, false
	})
	b := s.start("CHRONOS_KAFKA_ADVANCE=auto")
	watch, begun := heldup.Begin(t), time.Now()
	early := func(id string) (last time.Duration) {
		t.Helper()
		deadline := soon(time.Second)
		s.produce(newMessage(id, deadline, id))
		n := len(s.came)
		return deadline.Sub(s.consume(n + 1)[n].Timestamp) // the timestamp is when the client took the record
	}
	if got := early("first"); got > 0 {
		t.Errorf("the first message came %v early, and no way was known yet", got)
	}
	for i := range 4 {
		early(fmt.Sprint("measured ", i))
	}
	last := early("last")
	if last < way-20*time.Millisecond && watch.Known(t, begun, 20*time.Millisecond) {
		t.Errorf("the last message was handed over %v before its deadline, want %v at least", last, way)
	}
	advance := time.Duration(b.metric("chronos_bridge_advance_seconds") * float64(time.Second))
	if advance < way {
		t.Errorf("the metric says %v, want %v at least", advance, way)
	}
	watch.AtMost(t, begun, "from the last message to its deadline", last, most)
	watch.AtMost(t, begun, "the advance in the metric", advance, most)
}

// TestStoredEarlierPublishedNeverEarly: only the advance at the time of publishing counts,
// even if the message was stored with a longer advance.
func TestStoredEarlierPublishedNeverEarly(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	first := s.start("CHRONOS_KAFKA_ADVANCE=2s")
	deadlines := make(map[string]time.Time)
	for i := range 20 {
		id := fmt.Sprint(i)
		deadlines[id] = soon(5*time.Second + time.Duration(i)*13*time.Millisecond)
		s.produce(on(int32(i%partitions), newMessage(id, deadlines[id], id)))
	}
	s.awaitDone()
	first.stop()
	s.start("CHRONOS_KAFKA_ADVANCE=0s")
	for _, r := range s.consume(20) {
		if early := deadlines[string(r.Value)].Sub(r.Timestamp); early > 0 {
			t.Errorf("%s came %v before its deadline", r.Value, early)
		}
	}
}

// TestBridgesComeAndGo: every message that is in time comes once, while the test stops one of
// two bridges and starts a third bridge.
func TestBridgesComeAndGo(t *testing.T) {
	t.Parallel()
	s := newSetupOn(t, testkit.StartVolatileRedis(t).URL)
	bridges := []*bridge{s.start(), s.start()}
	const n = 300
	want := numbered("m", n)
	publish := func(from, to int) {
		for i := from; i < to; i++ {
			s.produce(on(int32(i%partitions), newMessage(want[i], soon(3*time.Second+time.Duration(i%7)*100*time.Millisecond), want[i])))
		}
	}
	publish(0, n/3)
	bridges[0].stop()
	publish(n/3, n/2)
	s.start()
	publish(n/2, n)
	s.wantValues(want...)
	for _, b := range bridges {
		b.stop() // an error would show
	}
}

// TestTopicsThatAreMissing: a bridge names the missing topics, and doesn't start.
func TestTopicsThatAreMissing(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	for _, c := range []struct {
		environ []string
		missing []string
	}{
		{[]string{"CHRONOS_KAFKA_INPUT=no-in"}, []string{"no-in"}},
		{[]string{"CHRONOS_KAFKA_OUTPUT=no-out"}, []string{"no-out"}},
		{[]string{"CHRONOS_KAFKA_DEAD_LETTERS=no-dead"}, []string{"no-dead"}},
		{[]string{"CHRONOS_KAFKA_INPUT=no-in", "CHRONOS_KAFKA_OUTPUT=no-out", "CHRONOS_KAFKA_DEAD_LETTERS=no-dead"}, []string{"no-in", "no-out", "no-dead"}},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		err := run(ctx, s.environ(c.environ...), t.Output())
		cancel()
		for _, topic := range c.missing {
			if err == nil || !strings.Contains(err.Error(), "topic "+topic+" doesn't exist") {
				t.Errorf("%v: %v", c.environ, err)
			}
		}
		if err != nil && strings.Count(err.Error(), "doesn't exist") != len(c.missing) {
			t.Errorf("%v: %v", c.environ, err)
		}
	}
	s.start("CHRONOS_KAFKA_DEAD_LETTERS=").stop() // without a dead-letter topic
}

// TestTopicsOfOthers: two pairs of topics don't share a Redis.
func TestTopicsOfOthers(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	first := s.start()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for _, other := range []string{"CHRONOS_KAFKA_INPUT=dead", "CHRONOS_KAFKA_GROUP=others"} {
		err := run(ctx, s.environ(other, "CHRONOS_KAFKA_DEAD_LETTERS="), t.Output())
		if err == nil || !strings.Contains(err.Error(), "input in, output out, group chronos") || !strings.Contains(err.Error(), "a database of their own") {
			t.Errorf("with %s: %v", other, err)
		}
	}
	first.stop()
	s.start("CHRONOS_KAFKA_DEAD_LETTERS=").stop()
}

func TestAdmin(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	b := s.start()
	s.produce(newMessage("a", soon(3*time.Second), "a"), on(1, newMessage("b", soon(-time.Minute), "b")), &kgo.Record{Topic: "in", Value: []byte("c")})
	s.wantValues("a", "b", "c")
	await(t, "readiness", func() bool { status, _ := b.get("/readyz"); return status == http.StatusOK })
	if status, _ := b.get("/livez"); status != http.StatusOK {
		t.Errorf("/livez is %d", status)
	}
	// The bridge measures the lag every 2 s: the last lag may be older than the last commit.
	await(t, "no lag", func() bool { return b.metric(`chronos_bridge_lag{partition="0"}`) == 0 })
	for series, want := range map[string]float64{
		`chronos_bridge_messages_total{as="stored"}`: 1, `chronos_bridge_messages_total{as="late"}`: 1,
		`chronos_bridge_messages_total{as="duplicate"}`: 0, `chronos_bridge_messages_total{as="again"}`: 0,
		`chronos_bridge_malformed_total{reason="missing_id"}`: 1, `chronos_bridge_lag{partition="0"}`: 0, `chronos_bridge_paused_partitions`: 0,
		`chronos_bridge_jitter_seconds_count`: 1, `chronos_bridge_late_publish_seconds_count`: 1,
	} {
		_, text := b.get("/metrics")
		if got := b.metric(series); got != want || !strings.Contains(text, "\n"+series+" ") {
			t.Errorf("%s is %v, want %v", series, got, want)
		}
	}
}

// Everyone may read health, metrics, the description and the topology of a bridge. All other
// requests need the token that the bridge made.
func TestAdminNeedsTheTokenOfTheBridge(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	b := s.start()
	await(t, "readiness", func() bool { status, _ := b.get("/readyz"); return status == http.StatusOK })
	address := listening.FindStringSubmatch(b.log.String())[1]
	made, err := localtoken.Find([]string{"XDG_RUNTIME_DIR=" + s.runtimeDir}, address)
	if err != nil || made.Token == "" || !strings.Contains(b.log.String(), made.File) {
		t.Fatalf("the token is in %q, %v", made.File, err)
	}
	ask := func(method, path string, headers ...string) int {
		t.Helper()
		got, err := testkit.Ask(nil, method, address+path, "", headers...)
		if err != nil {
			t.Fatal(err)
		}
		return got.Status
	}
	bearer := "Bearer " + made.Token
	for _, c := range []struct {
		method, path    string
		without, having int
	}{
		{"GET", "/livez", 200, 200},
		{"GET", "/readyz", 200, 200},
		{"GET", "/metrics", 200, 200},
		{"GET", "/openapi.yaml", 200, 200},
		{"GET", "/topology", 200, 200},
		{"GET", "/dead", 401, 200},
		{"GET", "/debug/pprof/", 401, 200},
		{"POST", "/dead/fire?all=true", 401, 200},
		{"DELETE", "/topology/shards/other", 401, 409},
	} {
		without, having := ask(c.method, c.path), ask(c.method, c.path, "Authorization", bearer)
		if without != c.without || having != c.having {
			t.Errorf("%s %s: %d without the token, %d with it, want %d and %d", c.method, c.path, without, having, c.without, c.having)
		}
	}
	for header, status := range map[string]int{"X-Chronos-Timer": 403, "webhook-id": 403, "Origin": 403, "Host": 421} {
		if got := ask("POST", "/dead/fire?all=true", "Authorization", bearer, header, "http://evil.example"); got != status {
			t.Errorf("with %s: %d, want %d", header, got, status)
		}
	}
	if !strings.Contains(b.log.String(), `msg="admin change" method=POST path=/dead/fire query="all=true" status=200 by=local address=127.0.0.1:`) {
		t.Error("the log does not say who fired the dead letters")
	}
	b.stop()
	if strings.Contains(b.log.String(), made.Token) {
		t.Error("the token is in the log")
	}
	if _, err := os.Stat(made.File); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the end there is still %s: %v", made.File, err)
	}
}

// TestRedisDown: a Redis that answers with errors loses no message, and afterwards the bridge
// goes on by itself.
func TestRedisDown(t *testing.T) {
	t.Parallel()
	mini := miniredis.RunT(t)
	s := newSetupOn(t, "redis://"+mini.Addr())
	b := s.start()
	s.produce(newMessage("before", soon(0), "before"))
	s.wantValues("before")
	mini.SetError("LOADING it is")
	s.produce(on(1, newMessage("early", soon(time.Second), "early")), on(2, newMessage("late", soon(-time.Second), "late")))
	await(t, "pauses", func() bool { return b.metric("chronos_bridge_paused_partitions") == 2 })
	if n := s.published(); n != 1 {
		t.Errorf("%d messages are published, want 1", n)
	}
	mini.SetError("")
	s.wantValues("before", "early", "late")
	await(t, "the partitions to go on", func() bool { return b.metric("chronos_bridge_paused_partitions") == 0 })
}

// TestFewerInstancesThanCopiesAreWarnedAbout: one Redis can't hold the two copies that
// a bridge stores by default.
func TestFewerInstancesThanCopiesAreWarnedAbout(t *testing.T) {
	t.Parallel()
	const warning = "fewer Redis instances than copies are asked for"
	for setting, warned := range map[string]bool{"": true, "CHRONOS_KAFKA_REPLICATION=1": false} {
		s := newSetup(t)
		b := s.start(setting)
		if got := strings.Contains(b.log.String(), warning); got != warned {
			t.Errorf("%q: warned %t, want %t", setting, got, warned)
		}
		b.stop()
	}
}
