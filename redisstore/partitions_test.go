package redisstore

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"chronos/redisstore/endpoint"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/verify/testkit"
)

// Writes of several partitions are in one command.
func TestPartitionsShareACall(t *testing.T) {
	t.Parallel()
	p := testkit.StartRedis(t)
	s := openShards(t, io.Discard, shardOf("a", p))
	merge(t, s, creation("first", time.Hour))
	if _, err := claimAll(t.Context(), s, "a"); err != nil { // both scripts are loaded now
		t.Fatal(err)
	}
	writes := make([]store.Write, 100)
	for i := range writes {
		writes[i] = creation(strconv.Itoa(i), 0)
	}
	s.Merge(t.Context(), writes) // loads the script for several partitions
	for i := range writes {
		writes[i].State.Version++
	}
	calls := func(do func()) int {
		before := p.Calls("evalsha") + p.Calls("eval")
		do()
		return p.Calls("evalsha") + p.Calls("eval") - before
	}
	if n := calls(func() {
		for i, written := range s.Merge(t.Context(), writes) {
			if written.Status != store.WriteStored {
				t.Errorf("write %d: %+v", i, written)
			}
		}
	}); n != 1 {
		t.Errorf("100 writes are %d calls, want 1", n)
	}
	var claims []store.Claimed
	if n := calls(func() {
		result, err := s.Claim(t.Context(), "a", store.ClaimRequest{Horizon: time.Second, Limit: 128, Grace: time.Minute})
		if claims = result.Claims; err != nil {
			t.Errorf("claim: %v", err)
		}
	}); n != 1 || len(claims) < 50 {
		t.Errorf("%d claims by %d calls, want most timers by 1 call", len(claims), n)
	}
}

// Reads of many callers go out together while the shard answers slowly, few in a call, since a timer may be large.
func TestReadsShareACall(t *testing.T) {
	t.Parallel()
	p := testkit.StartRedis(t)
	s := openShards(t, io.Discard, shardOf("a", p))
	var keys []string
	for partition := range Partitions {
		keys = append(keys, s.keysOf("a", partition, 6)...) // more than 8 reads of one partition would be one call
	}
	for _, key := range keys {
		merge(t, s, creation(key, time.Hour))
	}
	read := func(key string) store.ReadResult {
		return s.Read(t.Context(), []store.Spot{{Shard: "a", Key: key}})[0]
	}
	read(keys[0]) // loads the script
	before := p.Calls("evalsha") + p.Calls("eval")
	p.Signal(syscall.SIGSTOP)
	var readers, begun sync.WaitGroup
	begun.Add(len(keys))
	for _, key := range keys {
		readers.Go(func() {
			begun.Done()
			if got := read(key); got.Err != nil || got.Record.ID.Key != key {
				t.Errorf("read %s: %+v", key, got)
			}
		})
	}
	begun.Wait()
	time.Sleep(100 * time.Millisecond) // the Redis stands still
	p.Signal(syscall.SIGCONT)
	readers.Wait()
	if n := p.Calls("evalsha") + p.Calls("eval") - before; n > len(keys)/4 || n < len(keys)/8 {
		t.Errorf("%d reads are %d calls, want 4 to 8 reads a call", len(keys), n)
	}
}

// An error in one partition leaves the other partitions of the call alone.
func TestAnErrorInOnePartitionStaysThere(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func() (*Store, func(key string)){
		"mini": func() (*Store, func(key string)) {
			r := startMini(t, time.Now())
			return openStore(t, "node", "http", r), func(key string) { _ = r.mini.Set(key, "no sorted set") }
		},
		"real": func() (*Store, func(key string)) {
			p := testkit.StartRedis(t)
			return openShards(t, io.Discard, shardOf("a", p)), func(key string) { p.Do("SET", key, "no sorted set") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, spoil := start()
			const bad = 3
			spoil(s.keys[bad].due)
			var writes []store.Write
			for p := range Partitions {
				writes = append(writes, creation(s.keysOf("a", p, 1)[0], 0))
			}
			for p, written := range s.Merge(t.Context(), writes) {
				switch {
				case p != bad && written.Status != store.WriteStored:
					t.Errorf("partition %d: %+v", p, written)
				case p == bad && (!errors.Is(written.Err, timer.ErrRefused) || !strings.Contains(fmt.Sprint(written.Err), "WRONGTYPE")):
					t.Errorf("the spoilt partition: %+v, want WRONGTYPE", written)
				}
			}
			result, err := s.Claim(t.Context(), "a", store.ClaimRequest{Horizon: time.Second, Limit: 128, Grace: time.Minute})
			if len(result.Claims) != Partitions-1 || !errors.Is(err, timer.ErrRefused) {
				t.Errorf("%d claims, %v, want those of %d partitions, and the error", len(result.Claims), err, Partitions-1)
			}
		})
	}
}

// A node of a Cluster that is addressed as a single Redis takes one partition a call.
func TestANodeOfAClusterTakesOnePartitionACall(t *testing.T) {
	t.Parallel()
	p := startCluster(t)
	s := openShards(t, io.Discard, endpoint.Config{Name: "a", URL: "redis://" + p.Address + "/0"})
	for round := range 2 {
		var writes []store.Write
		for part := range Partitions {
			writes = append(writes, creation(s.keysOf("a", part, 1+round)[round], time.Hour))
		}
		for i, written := range s.Merge(t.Context(), writes) {
			if written.Status != store.WriteStored {
				t.Errorf("round %d, partition %d: %+v", round, i, written)
			}
		}
	}
	before := p.Calls("evalsha")
	if _, err := s.Claim(t.Context(), "a", store.ClaimRequest{Horizon: time.Second, Limit: 128, Grace: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if n := p.Calls("evalsha") - before; n != Partitions {
		t.Errorf("a claim of all partitions is %d calls, want %d", n, Partitions)
	}
}
