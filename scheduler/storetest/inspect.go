package storetest

import (
	"context"

	"chronos/scheduler/store"
)

// Inspect has no facts, and a problem only for a shard that does not answer.
func (v *view) Inspect(ctx context.Context) store.Inspection {
	found := store.Inspection{Epoch: 1, View: v.View()}
	for _, name := range v.Shards() {
		r := store.ShardReport{Name: name, State: "active", Swept: store.Partitions}
		survey, err := v.Survey(ctx, name)
		if r.Err = err; err != nil {
			r.Problem = err.Error()
		}
		r.Copies, r.Letters, r.Due, r.Overdue = survey.Pending+survey.Tombstones, survey.Letters, survey.Due, survey.Overdue
		found.Shards = append(found.Shards, r)
	}
	return found
}
