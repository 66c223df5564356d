package redisstore

import (
	"strings"
	"testing"

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
	for s, want := range map[*Store]string{two: "", one: "c"} {
		_, reports := s.Inspect(t.Context())
		if reports[0].Twin != want {
			t.Errorf("a is shown with twin %q, want %q", reports[0].Twin, want)
		}
		if s == one && reports[1].Twin != "a" {
			t.Errorf("c is shown with twin %q, want a", reports[1].Twin)
		}
	}
}
