//go:build linux

package main

import (
	"context"

	"chronos/loadtest/bench/machine"
)

// dataset is the memory of all data in Redis, in bytes.
func (s *kafkaStack) dataset(ctx context.Context) (sum int64, err error) {
	for _, r := range s.shards {
		used, err := r.Info(ctx, "memory", "used_memory_dataset")
		if err != nil {
			return 0, err
		}
		sum += used
	}
	return sum, nil
}

// addMemory adds the highest resident memory of a bridge.
func (s *kafkaStack) addMemory(add func(string, float64)) error {
	highest := int64(0)
	for _, p := range s.bridges {
		_, peak, err := machine.Memory(p.PID())
		if err != nil {
			return err
		}
		highest = max(highest, peak)
	}
	add(bridgeMB, float64(highest)/1e6)
	return nil
}
