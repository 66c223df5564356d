package redisstore

import (
	"strings"
	"testing"
	"time"

	"chronos/redisstore/endpoint"
	"chronos/scheduler/verify/testkit"
)

func TestTwoDatabasesOfOneRedisAreWarnedAboutAtTheStart(t *testing.T) {
	t.Parallel()
	a, b := testkit.StartRedis(t), testkit.StartRedis(t)
	const warning = "are databases of one Redis"
	var log testkit.Log
	two := openShards(t, &log, shardOf("a", a), shardOf("b", b))
	if strings.Contains(log.String(), warning) {
		t.Errorf("two Redis are warned about: %s", log.String())
	}
	one := openShards(t, &log, shardOf("a", a), endpoint.Config{Name: "c", URL: strings.TrimSuffix(a.URL, "/0") + "/1"}, shardOf("b", b))
	if !strings.Contains(log.String(), warning) || !strings.Contains(log.String(), "shards=a,c") {
		t.Errorf("two databases of one Redis are not warned about: %s", log.String())
	}
	for s, want := range map[*Store][]string{two: {"", ""}, one: {"shard c", "shard a", ""}} {
		for i, r := range s.Inspect(t.Context()).Shards {
			if want[i] == "" && r.Problem != "" || !strings.Contains(r.Problem, want[i]) {
				t.Errorf("%s is shown with the problem %q, want one about %q", r.Name, r.Problem, want[i])
			}
		}
	}
}

func TestInspectTellsTheFacts(t *testing.T) {
	t.Parallel()
	a, b, c := testkit.StartRedis(t), testkit.StartRedis(t), testkit.StartRedis(t)
	for server, settings := range map[*testkit.Redis][]string{
		a: {"appendonly", "yes"}, b: {"appendonly", "no", "save", "3600 1", "maxmemory", "100mb"}, c: {"appendonly", "no", "save", ""},
	} {
		for i := 0; i < len(settings); i += 2 {
			if err := server.Admin.ConfigSet(t.Context(), settings[i], settings[i+1]).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := openShards(t, new(testkit.Log), shardOf("a", a), shardOf("b", b), shardOf("c", c))
	shards := s.Inspect(t.Context()).Shards
	for i, want := range []string{"aof", "rdb", "none"} {
		r := &shards[i]
		if r.Err != nil || r.Facts.Persists != want || r.Facts.Evicts || !strings.Contains(r.Facts.Version, ".") || r.Facts.UsedMemory < 1<<16 {
			t.Errorf("%s: %v, %+v, want %s", r.Name, r.Err, r.Facts, want)
		}
		if ahead := r.Facts.ClockAhead; ahead > time.Millisecond || ahead < -5*time.Second {
			t.Errorf("%s is ahead by %v on the same machine", r.Name, ahead)
		}
	}
	if shards[0].Facts.MaxMemory != 0 || shards[1].Facts.MaxMemory != 100<<20 {
		t.Errorf("bounds of the memory: %+v, %+v", shards[0].Facts, shards[1].Facts)
	}
	if err := c.Admin.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err(); err != nil {
		t.Fatal(err)
	}
	// If the shard gets a new connection just now, the shard is unfit, and the problem says so.
	if r := s.Inspect(t.Context()).Shards[2]; !r.Facts.Evicts && !strings.Contains(r.Problem, "evicts timers") {
		t.Errorf("that c evicts is not told: %+v", r)
	}
}
