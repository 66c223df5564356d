package replica

import (
	"cmp"

	"chronos/scheduler/shard"
	"chronos/scheduler/timer"
)

// keyTries is how many keys are made at most to find a key whose owners are well. With one shard of
// three away, all 32 keys miss in one of 400,000 creates.
const keyTries = 32

// NewKey makes a key that begins with prefix, for a timer whose client chose no key. While some shard is not well, NewKey
// looks for a key whose owners are well, so that the timer has all its copies. Without such a key,
// NewKey takes a key with the most owners that are well, the first owner before the next.
func (k *Keeper) NewKey(prefix string, t *timer.Timer) (best string, err error) {
	tries, found := 1, -1
	if k.shards.Ailing() {
		tries = keyTries
	}
	id := timer.ID{RF: cmp.Or(t.ReplicationFactor, timer.DefaultReplicationFactor)}
	for range tries {
		key, err := k.store.NewKey(prefix)
		if err != nil || tries == 1 {
			return key, err
		}
		id.Key = key
		well, owners := 0, k.shards.Homes(id)
		for _, p := range owners {
			if p.Shard.Reach() != shard.Up {
				continue
			}
			well += 2
			if p.Rank == 0 {
				well++
			}
		}
		if well > found {
			best, found = key, well
		}
		if well > 2*len(owners) {
			break
		}
	}
	return best, nil
}
