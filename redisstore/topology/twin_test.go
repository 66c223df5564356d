package topology

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// database is the URL of a database of a shard's Redis.
func (l *laidOut) database(shard, n string) string {
	return strings.TrimSuffix(l.redis[shard].URL, "/0") + "/" + n
}

// Copies in two databases of one Redis are lost together.
func TestASecondDatabaseOfOneRedisIsAddedByForceAlone(t *testing.T) {
	t.Parallel()
	l := layOut(t, "a")
	s := l.node("a")
	twin := Member{Name: "b", URL: l.database("a", "1")}
	refused := func(m Member, force bool, want string) {
		t.Helper()
		var reason *RefusedError
		if _, err := s.AddShard(t.Context(), m, force); !errors.As(err, &reason) || reason.Code != CodeSameRedis || !strings.Contains(reason.Reason, want) {
			t.Errorf("added %s, force %t: %v", m.Name, force, err)
		}
		if now := l.held("a"); !strings.HasPrefix(now, "1 ") {
			t.Fatalf("something was begun: %s", now)
		}
	}
	refused(twin, false, "shards a and b would be two databases of one Redis")
	if left := l.redis["a"].Do("EVAL", "redis.call('SELECT', 1) return redis.call('HGET', '"+Key+"', 'holder')", 0); left != nil {
		t.Errorf("the refused database is locked by %v", left)
	}
	other := strings.Replace(l.database("a", "0"), "127.0.0.1", "localhost", 1) // the same database under another name
	for _, force := range []bool{false, true} {
		refused(Member{Name: "c", URL: other}, force, "shards a and c would be the same database of one Redis")
	}
	if _, err := s.AddShard(t.Context(), twin, true); err != nil {
		t.Fatal(err)
	}
	l.wantActive(8*time.Second, "a", "b")
	p := s.Placement()
	for i, want := range []string{"b", "a"} {
		if twin := TwinOf(p.Shards[i], p.Shards); twin == nil || twin.Name() != want {
			t.Errorf("the twin of shard %d is %v", i, twin)
		}
	}
}
