package site

import (
	"context"
	"slices"

	"chronos/scheduler/awake"
	"chronos/scheduler/timing"
)

// forget removes the marks for a site that was removed: nobody can be told, and marked tombstones would stay forever. A
// node that has not heard of the removal may leave marks for BlindFor.
func (s *Sites) forget(ctx context.Context, name string) {
	if !awake.Sleep(ctx, timing.BlindFor+timing.BeatInterval) {
		return
	}
	for _, sh := range s.own.Shards.All() {
		if slices.Contains(s.own.Shards.Store.Sites().All, name) {
			return // added again
		}
		bounded, cancel := s.config.Awake.WithTimeout(ctx, timing.CopyPatience)
		err := s.own.Shards.Store.ForgetMarks(bounded, sh.Name, name)
		cancel()
		if err != nil {
			sh.Log.Warn("the marks for a removed site could not be removed", "site", name, "err", err)
		}
	}
}
