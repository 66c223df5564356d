package operator

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"chronos/redisstore"
)

// What is not known of a shard that can't be asked is null: a 0 would say that nothing is lost with it.
func TestShowAShardThatCannotBeAsked(t *testing.T) {
	t.Parallel()
	there, gone := miniredis.RunT(t), miniredis.RunT(t)
	lost := gone.Addr()
	store, err := redisstore.Open(t.Context(), redisstore.Options{
		Node: "n", Lane: "http", Log: slog.New(slog.DiscardHandler),
		Shards: []redisstore.ShardConfig{{Name: "a", URL: "redis://" + there.Addr()}, {Name: "b", URL: "redis://" + lost}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	gone.Close()

	raw, err := json.Marshal(Operator{Store: store}.Show(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"name":"a","url":"redis://` + there.Addr() + `","state":"active","copies":0,"swept":`,
		`"name":"b","url":"redis://` + lost + `","state":"active","copies":null,"swept":null,"problem":"`,
	} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("%s does not have\n%s", raw, want)
		}
	}
}
