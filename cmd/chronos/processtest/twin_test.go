package processtest

import (
	"net/http"
	"strings"
	"testing"

	"chronos/scheduler/verify/testkit"
)

// TestTwoDatabasesOfOneRedis: a second database of a Redis is no second place for copies. The
// second database is refused, and shown as a problem if force has added the database.
func TestTwoDatabasesOfOneRedis(t *testing.T) {
	t.Parallel()
	redis := testkit.StartRedis(t)
	node := startNode(t, redis.URL)
	body := `{"name": "b", "url": "` + strings.TrimSuffix(redis.URL, "/0") + `/1"}`
	got := node.ask(t, http.MethodPost, "/topology/shards", body)
	if got.Status != http.StatusConflict || !strings.Contains(got.Body, "same-redis") || !strings.Contains(got.Body, "two databases of one Redis") {
		t.Errorf("added: %d %s", got.Status, got.Body)
	}
	if got = node.ask(t, http.MethodPost, "/topology/shards?force=true", body); got.Status != http.StatusOK {
		t.Fatalf("added with force: %d %s", got.Status, got.Body)
	}
	got = node.ask(t, http.MethodGet, "/topology", "")
	for _, other := range []string{"main", "b"} {
		if !strings.Contains(got.Body, "a database of the same Redis as shard "+other) {
			t.Errorf("no problem names %s: %s", other, got.Body)
		}
	}
}
