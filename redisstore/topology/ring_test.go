package topology

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// stub is a hash that knows only the texts and seeds of an example.
type stub map[string]uint64

func (s stub) of(t *testing.T, shards ...string) ring {
	t.Helper()
	return newRingWith(shards, func(text string, seed uint64) uint64 {
		h, ok := s[fmt.Sprintf("%s/%d", text, seed)]
		if !ok {
			t.Errorf("the example has no hash of %q with seed %d", text, seed)
		}
		return h
	})
}

// The worked examples of the hashing paper, with the paper's numbers.
func TestWorkedExamples(t *testing.T) {
	plain := stub{
		"A/0": 1000, "B/0": 2000, "C/0": 3000, "D/0": 4000,
		"100/1000": 7777, "100/2000": 9999, "100/3000": 8888, "100/4000": 6666,
	}
	shardClash := stub{
		"A1/0": 1000, "A2/0": 1000, "B/0": 2000, "C/0": 3000,
		"100/1000": 7777, "100/1001": 9000, "100/2000": 9999, "100/3000": 8888,
	}
	timerClash := stub{
		"A/0": 1000, "B/0": 2000, "C/0": 3000,
		"200/1000": 800, "200/2000": 800, "200/3000": 900,
	}
	for _, c := range []struct {
		name   string
		hash   stub
		shards []string
		key    string
		want   []string // the primary, then the backups
	}{
		{"A B C", plain, []string{"A", "B", "C"}, "100", []string{"A", "B", "C"}},
		{"D joins and becomes primary, B stays first backup", plain, []string{"A", "B", "C", "D"}, "100", []string{"D", "B", "C", "A"}},
		{"A1 and A2 clash, A2 counts as 1001", shardClash, []string{"A1", "A2", "B", "C"}, "100", []string{"A1", "B", "A2", "C"}},
		{"A1 leaves, A2 counts as 1000 again", shardClash, []string{"A2", "B", "C"}, "100", []string{"A2", "B", "C"}},
		{"the timer's hashes of A and B clash, A wins", timerClash, []string{"A", "B", "C"}, "200", []string{"A", "C", "B"}},
		{"the same without A", timerClash, []string{"B", "C"}, "200", []string{"B", "C"}},
		{"the same without B", timerClash, []string{"A", "C"}, "200", []string{"A", "C"}},
		{"the same in another list order, B wins", timerClash, []string{"B", "A", "C"}, "200", []string{"B", "C", "A"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := c.hash.of(t, c.shards...)
			if diff := cmp.Diff(c.want, named(r.order(c.key), c.shards)); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
		})
	}
}

// An increment may clash again: the last of the hashes 800, 800, 801 becomes 802.
func TestIncrementGoesOnUntilDistinct(t *testing.T) {
	r := stub{"A/0": 5, "B/0": 5, "C/0": 6, "k/5": 800, "k/6": 800, "k/7": 801}.of(t, "A", "B", "C")
	if diff := cmp.Diff([]uint64{5, 6, 7}, r.seeds); diff != "" {
		t.Errorf("seeds (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int{0, 2, 1}, r.order("k")); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestNoShards(t *testing.T) {
	r := newRing(nil)
	if got := r.order("k"); len(got) != 0 {
		t.Errorf("order of no shards: %v", got)
	}
}

// Golden values freeze XXH64 and how XXH64 is used: with any change, every stored timer would be looked for in the
// wrong place.
func TestPlacementIsFrozen(t *testing.T) {
	const uuid = "0198f1c2a3b47d5e8f00112233445566"
	for _, c := range []struct {
		text string
		seed uint64
		want uint64
	}{
		{"", 0, 0xef46db3751d8e999},
		{"abc", 0, 0x44bc2cf5ad770999},
		{"main", 0, 0x102a6837de10ee06},
		{"a", 0, 0xd24ec4f1a98c6e5b},
		{uuid, 0xd24ec4f1a98c6e5b, 0x8506f7cab5d467bb},
		{uuid, math.MaxUint64, 0x213f96fef7dfc899},
	} {
		if got := seededHash(c.text, c.seed); got != c.want {
			t.Errorf("hash of %q with seed %#x is %#x, want %#x", c.text, c.seed, got, c.want)
		}
	}
	names := []string{"a", "b", "c", "d", "e"}
	r := newRing(names)
	for _, c := range []struct {
		key   string
		order []string
	}{
		{uuid, []string{"e", "b", "c", "d", "a"}},
		{"my-own-key", []string{"a", "b", "c", "d", "e"}},
		{"x", []string{"a", "b", "d", "c", "e"}},
		{"A~b.c_d-e", []string{"b", "d", "a", "e", "c"}},
	} {
		if diff := cmp.Diff(c.order, named(r.order(c.key), names)); diff != "" {
			t.Errorf("order of %s (-want +got):\n%s", c.key, diff)
		}
	}
	for i, want := range []timer.Hint{
		0x2000000008001000, 0x1000000028000000, 0x0084200000000000, 0x0000001000800400, 0x0010000004000080,
	} {
		if got := timer.HintOf(r.seeds[i]); got != want {
			t.Errorf("mask of %s is %#x, want %#x", names[i], uint64(got), uint64(want))
		}
	}
}

func named(order []int, names []string) []string {
	out := make([]string, len(order))
	for i, shard := range order {
		out[i] = names[shard]
	}
	return out
}

// drawShards are 2 to 8 distinct names.
func drawShards(t *rapid.T) []string {
	return rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z][a-z0-9.-]{0,10}`), 2, 8, rapid.ID).Draw(t, "shards")
}

func drawKeys(t *rapid.T) []string {
	return rapid.SliceOfN(rapid.StringMatching(`[A-Za-z0-9._~-]{1,40}`), 1, 50).Draw(t, "keys")
}

// The primary has the lowest hash; among clashing hashes the first of the list. The backups follow from the highest
// hash down, with clashes resolved in list order.
func TestOrderFollowsTheHashes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "shards")
		hashes := rapid.SliceOfN(rapid.Uint64Range(0, 5), n, n).Draw(t, "hashes") // clashes are common
		r := ring{hash: func(_ string, seed uint64) uint64 { return hashes[seed] }}
		for i := range n {
			r.seeds = append(r.seeds, uint64(i))
		}
		order := r.order("k")
		if primary := slices.Index(hashes, slices.Min(hashes)); order[0] != primary {
			t.Fatalf("order %v of %v, but primary %d", order, hashes, primary)
		}
		var taken []uint64
		for _, h := range hashes {
			taken = append(taken, distinct(h, taken))
		}
		for i := 2; i < n; i++ {
			if taken[order[i-1]] < taken[order[i]] {
				t.Fatalf("order %v of %v: the backups' hashes rise", order, taken)
			}
		}
		slices.Sort(order)
		for i, shard := range order {
			if shard != i {
				t.Fatalf("order has not each of %d shards once: %v", n, order)
			}
		}
	})
}

// A joining shard gets timers and gives no timers away. A remaining shard gives away no timer when another shard
// leaves. A primary becomes no backup.
func TestMembershipMovesLittle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all, keys := drawShards(t), drawKeys(t)
		leaving := rapid.IntRange(0, len(all)-1).Draw(t, "leaving")
		fewer := slices.Concat(all[:leaving], all[leaving+1:])
		rings := map[int]ring{len(all): newRing(all), len(fewer): newRing(fewer)}
		for _, key := range keys {
			with, without := named(rings[len(all)].order(key), all), named(rings[len(fewer)].order(key), fewer)
			if with[0] != all[leaving] && with[0] != without[0] {
				t.Fatalf("%s: the primary moves from %s to %s though %s joins or leaves", key, without[0], with[0], all[leaving])
			}
			for rf := 1; rf < len(fewer); rf++ {
				if slices.Contains(with[1:rf], without[0]) || slices.Contains(without[1:rf], with[0]) {
					t.Fatalf("%s, rf %d: a primary becomes a backup: %v and %v", key, rf, without, with)
				}
				for _, shard := range with[:rf] {
					if shard != all[leaving] && !slices.Contains(without[:rf], shard) {
						t.Fatalf("%s, rf %d: %s loses its copy: %v and %v", key, rf, shard, without, with)
					}
				}
			}
		}
	})
}

// Every shard gets its share, as primary and as backup; every partition too.
func TestBalance(t *testing.T) {
	const timers, ranked = 100_000, 20_000
	for n := 3; n <= 8; n++ {
		names := make([]string, n)
		for i := range names {
			names[i] = "redis-" + strconv.Itoa(i)
		}
		r := newRing(names)
		primaries, backups, partitions := make([]int, n), make([]int, n), make([]int, n*store.Partitions)
		for i := range timers {
			key := fmt.Sprintf("%032x", i)
			order := r.order(key)
			primary := order[0]
			primaries[primary]++
			partitions[primary*store.Partitions+int(xxhash.Sum64String(key)%store.Partitions)]++ // as the store has them
			if i < ranked {
				backups[order[1]]++
			}
		}
		for what, counts := range map[string][]int{"primaries": primaries, "first backups": backups, "partitions of shards": partitions} {
			// A chi-square with k degrees of freedom has mean k and variance 2k. The keys are fixed, so a bound of
			// five deviations fails never or always.
			k := float64(len(counts) - 1)
			if got := chiSquare(counts); got > k+5*math.Sqrt(2*k) {
				t.Errorf("%d shards, %s: chi-square %.1f with %.0f degrees of freedom: %v", n, what, got, k, counts)
			}
		}
	}
}

func chiSquare(counts []int) float64 {
	total := 0
	for _, n := range counts {
		total += n
	}
	expected := float64(total) / float64(len(counts))
	sum := 0.0
	for _, n := range counts {
		sum += (float64(n) - expected) * (float64(n) - expected) / expected
	}
	return sum
}
