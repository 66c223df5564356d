package redisstore

import (
	"fmt"
	"testing"

	"chronos/scheduler/store"
)

// TestAShardKeepsTheLaterTopology: a node that was held up may store an outdated topology after another node has
// stored a later one.
func TestAShardKeepsTheLaterTopology(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, opened store.Store) {
		s, is := opened.(*Store)
		if !is {
			return // the model has no topology
		}
		sh, err := s.shard("a")
		if err != nil {
			t.Fatal(err)
		}
		says := func(want string, args ...any) {
			t.Helper()
			if said, err := sh.Run(t.Context(), args...); err != nil || said != want {
				t.Errorf("%v: answered %q, %v; want %s", args, said, err, want)
			}
		}
		backend := func(want string, epoch int64, change string) {
			t.Helper()
			says(want, "store", "token", 10_000, epoch, change, fmt.Sprintf("%d %s {}", epoch, change))
		}
		says("locked", "lock", "token", 10_000, "", "", "")
		backend("stored", 5, "new")
		backend("newer", 4, "old")
		backend("newer", 5, "rival")
		if text, err := sh.Holds(t.Context()); err != nil || text != "5 new {}" {
			t.Errorf("the shard holds %q, %v", text, err)
		}
	})
}
