package bridgetest

import (
	"context"
	"fmt"
	"syscall"
	"testing"

	"chronos/scheduler/verify/record"
	"chronos/scheduler/verify/testkit"
)

// store is a redis-server with an append-only file, over all its restarts.
type store struct {
	*testkit.Redis
	name string
}

func newStore(t *testing.T, name string) *store {
	t.Helper()
	return &store{Redis: testkit.StartRedis(t), name: name}
}

// stop makes the store stand still; goOn lets the store go on.
func (s *store) stop() { s.Signal(syscall.SIGSTOP) }

func (s *store) goOn() { s.Signal(syscall.SIGCONT); s.AwaitAnswer() }

func (s *store) url() string { return s.name + "=" + s.URL }

// contents are the records of the bridges in all stores of a rig.
type contents struct {
	live, leases, letters int
	tombstones            map[string]int // number of copies, by key
}

func (r *rig) readContents(ctx context.Context) (contents, error) {
	all := contents{tombstones: make(map[string]int)}
	for _, s := range r.stores {
		for p := range 16 {
			if err := all.read(ctx, s, fmt.Sprintf("chronos:{kafka.%02d}:", p)); err != nil {
				return all, fmt.Errorf("read store %s: %w", s.name, err)
			}
		}
	}
	return all, nil
}

// read reads a partition's keys, as lua/README.md describes them.
func (all *contents) read(ctx context.Context, s *store, prefix string) error {
	pipe := s.Admin.TxPipeline()
	timers, leases, dead := pipe.HGetAll(ctx, prefix+"timers"), pipe.HLen(ctx, prefix+"leases"), pipe.ZCard(ctx, prefix+"dead")
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	all.leases += int(leases.Val())
	all.letters += int(dead.Val())
	for key, text := range timers.Val() {
		if key == "#" {
			continue
		}
		found, err := record.Parse(key, text)
		switch {
		case err != nil:
			return err
		case found.Ended:
			all.tombstones[key]++
		default:
			all.live++
		}
	}
	return nil
}
