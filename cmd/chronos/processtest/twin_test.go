package processtest

import (
	"net/http"
	"strings"
	"testing"
)

// TestTwoDatabasesOfOneRedis: a second database of a Redis is no second place for copies. It
// is refused, and shown as a problem where force let it in.
func TestTwoDatabasesOfOneRedis(t *testing.T) {
	t.Parallel()
	redis := startRedis(t)
	node := startNode(t, redis.URL)
	body := `{"name": "b", "url": "` + strings.TrimSuffix(redis.URL, "/0") + `/1"}`
	res, raw := node.ask(t, http.MethodPost, "/topology/shards", body)
	if res.StatusCode != http.StatusConflict || !strings.Contains(string(raw), "same-redis") || !strings.Contains(string(raw), "two databases of one Redis") {
		t.Errorf("added: %d %s", res.StatusCode, raw)
	}
	if res, raw = node.ask(t, http.MethodPost, "/topology/shards?force=true", body); res.StatusCode != http.StatusOK {
		t.Fatalf("added with force: %d %s", res.StatusCode, raw)
	}
	_, raw = node.ask(t, http.MethodGet, "/topology", "")
	for _, other := range []string{"main", "b"} {
		if !strings.Contains(string(raw), "a database of the same Redis as shard "+other) {
			t.Errorf("no problem names %s: %s", other, raw)
		}
	}
}
