package redisstore

import "sync"

// inParallel scatters work over shards and returns when all of it is done; with
// one shard it starts no goroutine.
func inParallel[K comparable, V any](shares map[K]V, do func(K, V)) {
	if len(shares) == 1 {
		for k, v := range shares {
			do(k, v)
		}
		return
	}
	var wg sync.WaitGroup
	for k, v := range shares {
		wg.Go(func() { do(k, v) })
	}
	wg.Wait()
}
