package simtest

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"chronos/redisstore/topology"
	"chronos/scheduler/timer"
	"chronos/scheduler/verify/history"
)

// placing is a list of shards, and the time during which nodes placed copies by the list.
type placing struct {
	shards   []string
	from, to time.Duration
}

// lookedFor bounds the time between two looks at the nodes, and the time for which a node may work by a list
// before a look notices.
const lookedFor = 2 * time.Second

// placedBy adds the lists of the topology by which a node works now.
func placedBy(all []placing, t *topology.Topology, now time.Duration) []placing {
	lists := append([][]string{t.Active}, t.Former...)
	if t.Next != nil {
		lists = append(lists, t.Next)
	}
	for _, list := range lists {
		same := func(p placing) bool { return p.to+lookedFor >= now-lookedFor && slices.Equal(p.shards, list) }
		if i := slices.IndexFunc(all, same); i >= 0 {
			all[i].to = now + lookedFor
			continue
		}
		all = append(all, placing{list, now - lookedFor, now + lookedFor})
	}
	return all
}

// rank orders the shards for the copies of a key as package redisstore does; TestHomes compares the two
// orders.
func (p placing) rank(key string) []string {
	sum := func(text string, seed uint64) uint64 {
		var d xxhash.Digest
		d.ResetWithSeed(seed)
		_, _ = d.WriteString(text) // never fails
		return d.Sum64()
	}
	ranked := slices.SortedFunc(slices.Values(p.shards), func(a, b string) int {
		return cmp.Compare(sum(key, sum(a, 0)), sum(key, sum(b, 0)))
	})
	if len(ranked) > 1 {
		slices.Reverse(ranked[1:])
	}
	return ranked
}

// known is the time in which the history mentions a timer, and the most copies that the timer may have.
type known struct {
	from, to time.Duration
	rf       int
}

// homes returns the owners of every timer, while the timer is written or called, or may wait.
func (l *ledger) homes(h *history.History) (homes []history.Home) {
	keys := map[string]known{}
	note := func(key string, from, to time.Duration, rf int) {
		k, there := keys[key]
		if !there {
			k.from = from
		}
		keys[key] = known{min(k.from, from), max(k.to, to), max(k.rf, rf)}
	}
	for i := range h.Callbacks {
		if c := &h.Callbacks[i]; c.Key != "" {
			at := time.Duration(c.ArriveNs)
			note(c.Key, at-longest, at, 1)
		}
	}
	for i := range h.Operations {
		o := &h.Operations[i]
		key := o.Key
		if o.Answer != nil {
			key = o.Answer.Key
		}
		if at := time.Duration(o.InvokeNs); key != "" && o.Timer != nil {
			life := time.Duration(o.Timer.IntervalMs) * time.Millisecond * time.Duration(o.Timer.Pops)
			note(key, at, at+max(life, longest), cmp.Or(o.Timer.RF, timer.DefaultReplicationFactor))
		} else if key != "" {
			note(key, at, at+longest, 1)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, k := range keys {
		for _, p := range l.places {
			if p.from <= k.to && p.to >= k.from {
				ranked := p.rank(key)
				home := history.Home{Key: key, Shards: ranked[:min(k.rf, len(ranked))], FromNs: int64(max(p.from, 0)), UntilNs: int64(p.to)}
				if k.rf == 1 && len(ranked) > 1 {
					home.Next = ranked[1]
				}
				homes = append(homes, home)
			}
		}
	}
	return homes
}

// TestATimerThatLastsHasOwnersToTheEnd: a timer of hours has owners for hours.
func TestATimerThatLastsHasOwnersToTheEnd(t *testing.T) {
	l := newLedger()
	l.places = []placing{{[]string{"a"}, 0, time.Minute}, {[]string{"b"}, 4 * time.Minute, 5 * time.Minute}}
	write := func(key string, interval time.Duration) history.Operation {
		return history.Operation{Kind: history.Replace, Key: key, Timer: &history.Asked{IntervalMs: interval.Milliseconds(), Pops: 1}}
	}
	h := &history.History{Operations: []history.Operation{write("long", lasting), write("short", time.Second)}}
	owners := map[string]int{}
	for _, home := range l.homes(h) {
		owners[home.Key]++
	}
	if owners["long"] != 2 || owners["short"] != 1 {
		t.Errorf("owners one after the other: %v, want 2 of the long one and 1 of the short one", owners)
	}
}

// TestHomes: nodes and the ledger rank the shards alike.
func TestHomes(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		c := changingCluster(t, 2, 3)
		defer c.close()
		rank, active := c.placement()
		for range 20 {
			key, err := timer.NewKey()
			if err != nil {
				t.Fatal(err)
			}
			if want, got := rank(key), (placing{shards: active}).rank(key); !slices.Equal(want, got) {
				t.Errorf("%s: nodes have %v, the ledger %v", key, want, got)
			}
		}
	})
}
