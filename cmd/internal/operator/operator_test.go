package operator

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"chronos/redisstore"
	"chronos/redisstore/endpoint"
)

// The unknown numbers of a shard that can't be asked are null: a 0 would say that the shard holds nothing.
func TestShowAShardThatCannotBeAsked(t *testing.T) {
	t.Parallel()
	there, gone := miniredis.RunT(t), miniredis.RunT(t)
	lost := gone.Addr()
	gone.Close() // before connections are opened ahead: otherwise the close of miniredis is a data race
	store, err := redisstore.Open(t.Context(), redisstore.Options{
		Node: "n", Lane: "http", Log: slog.New(slog.DiscardHandler),
		Shards: []endpoint.Config{{Name: "a", URL: "redis://" + there.Addr()}, {Name: "b", URL: "redis://" + lost}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })

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

func TestFewerInstancesThanCopiesAreWarnedAbout(t *testing.T) {
	t.Parallel()
	a, b := miniredis.RunT(t), miniredis.RunT(t)
	store, err := redisstore.Open(t.Context(), redisstore.Options{
		Node: "n", Lane: "kafka", Log: slog.New(slog.DiscardHandler),
		Shards: []endpoint.Config{{Name: "a", URL: "redis://" + a.Addr()}, {Name: "b", URL: "redis://" + b.Addr()}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	for copies, warned := range map[int]bool{1: false, 2: false, 3: true} {
		var log bytes.Buffer
		WarnOfFewCopies(slog.New(slog.NewTextHandler(&log, nil)), store, copies, "ask for less")
		if got := strings.Contains(log.String(), "level=WARN"); got != warned {
			t.Errorf("%d copies: warned %t, want %t: %s", copies, got, warned, log.String())
		}
		for _, want := range []string{"instances=2 copies=3", "or ask for less"} {
			if warned && !strings.Contains(log.String(), want) {
				t.Errorf("the warning does not say %q: %s", want, log.String())
			}
		}
	}
}
