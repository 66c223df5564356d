package redisstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"chronos/redisstore/endpoint"
	"chronos/redisstore/shard"
	"chronos/redisstore/topology"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/verify/heldup"
	"chronos/scheduler/verify/testkit"
)

// A Redis that evicts would lose timers. Such a Redis is refused at the start, and when it comes back after an
// outage.
func TestEvictingServer(t *testing.T) {
	t.Parallel()
	p := testkit.StartRedis(t, "--maxmemory-policy", "allkeys-lru")
	s, err := Open(t.Context(), options(io.Discard, shardOf("a", p)))
	if err == nil {
		_ = s.Close()
		t.Fatal("an evicting shard is accepted")
	}
	for _, want := range []string{"shard a", "maxmemory-policy allkeys-lru", "CONFIG SET maxmemory-policy noeviction"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
	p.Do("CONFIG", "SET", "maxmemory-policy", "noeviction")
	s = openShards(t, io.Discard, shardOf("a", p))
	merge(t, s, creation("kept", time.Hour))

	p.Kill()
	p.Start() // evicts again
	for range 3 {
		if err := read(t, s, "kept").Err; !errors.Is(err, timer.ErrUnavailable) || !strings.Contains(err.Error(), "maxmemory-policy") {
			t.Errorf("read from a shard that evicts now: %v, want ErrUnavailable that says why", err)
		}
		if err := s.Merge(t.Context(), []store.Write{creation("x", 0)})[0].Err; !errors.Is(err, timer.ErrUnavailable) {
			t.Errorf("merge into a shard that evicts now: %v, want ErrUnavailable", err)
		}
		if _, err := claimAll(t.Context(), s, "a"); !errors.Is(err, timer.ErrUnavailable) {
			t.Errorf("claim from a shard that evicts now: %v, want ErrUnavailable", err)
		}
		if _, err := s.Beat(t.Context(), "a", store.Announcement{Clock: time.Now()}); !errors.Is(err, timer.ErrUnavailable) {
			t.Errorf("beat on a shard that evicts now: %v, want ErrUnavailable", err)
		}
	}
	p.Do("CONFIG", "SET", "maxmemory-policy", "noeviction")
	if err := read(t, s, "kept").Err; err != nil {
		t.Errorf("the first request after it was set right: %v", err)
	}
}

// If one of several shards is down at the start, the remaining shards work, and the shard joins in by itself.
func TestShardDownAtStart(t *testing.T) {
	t.Parallel()
	up, down := testkit.StartRedis(t), testkit.StartRedis(t)
	down.Kill()
	var log testkit.Log
	s := openShards(t, &log, shardOf("up", up), shardOf("down", down))
	if got := s.Shards(); !slices.Equal(got, []string{"up", "down"}) {
		t.Errorf("shards %v", got)
	}
	const said = "level=WARN msg=\"shard can't be reached; timers without a copy elsewhere wait until the shard is back\" shard=down"
	if !strings.Contains(log.String(), said) {
		t.Errorf("the log doesn't warn of the shard that is down:\n%s", log.String())
	}
	var writes []store.Write
	for i := range 40 {
		w := creation(strconv.Itoa(i), time.Hour)
		w.Shard = s.Rank(w.Key)[0]
		writes = append(writes, w)
	}
	count := map[string]int{}
	watch, begin := heldup.Begin(t), time.Now()
	for i, answer := range s.Merge(t.Context(), writes) {
		on := writes[i].Shard
		count[on]++
		if on == "up" && answer.Err != nil || on == "down" && !errors.Is(answer.Err, timer.ErrUnavailable) {
			t.Errorf("on %s: %v", on, answer.Err)
		}
	}
	watch.AtMost(t, begin, "the answer", time.Since(begin), answered)
	if count["up"] < 5 || count["down"] < 5 {
		t.Errorf("the timers are not spread: %v", count)
	}
	if _, err := claimAll(t.Context(), s, "up"); err != nil {
		t.Error(err)
	}
	down.Start()
	testkit.Eventually(t, testkit.Soon, "the other on to be found", func() bool {
		_, err := claimAll(t.Context(), s, "down")
		return err == nil
	})
	for i, answer := range s.Merge(t.Context(), writes) {
		if answer.Err != nil {
			t.Errorf("all are up, on %s: %v", writes[i].Shard, answer.Err)
		}
	}
}

// A call with more timers than a script takes gets all answers, in order.
func TestManyTimersInOneCall(t *testing.T) {
	t.Parallel()
	p := testkit.StartRedis(t)
	s := openShards(t, io.Discard, shardOf("a", p))
	var writes []store.Write
	var keys []string
	for i := 0; len(writes) < 2*shard.MaxItems+1; i++ {
		if key := strconv.Itoa(i); partitionOf(key) == 7 || len(writes)%10 == 0 {
			writes = append(writes, creation(key, time.Hour))
			keys = append(keys, key)
		}
	}
	before := p.Calls("eval") + p.Calls("evalsha")
	for i, answer := range s.Merge(t.Context(), writes) {
		if answer.Err != nil || answer.Status != store.WriteStored || answer.Partition != partitionOf(keys[i]) {
			t.Fatalf("write %d of %s: %+v", i, keys[i], answer)
		}
	}
	if calls := p.Calls("eval") + p.Calls("evalsha") - before; calls < 3 || calls > 2*(Partitions+2) {
		t.Errorf("%d timers took %d calls", len(writes), calls)
	}
	for i, answer := range s.Read(t.Context(), spots(keys...)) {
		if answer.Err != nil || answer.Record.Timer.Callback.URI != "http://localhost/"+keys[i] {
			t.Fatalf("read %d of %s: %+v", i, keys[i], answer)
		}
	}
}

// A client's instant may lie so far back that no duration holds the time since. The timer fires at once, as for
// every past instant.
func TestInstantLongPast(t *testing.T) {
	t.Parallel()
	s := openShards(t, io.Discard, shardOf("a", testkit.StartRedis(t)))
	for _, year := range []int{1, 1500, 1700, 1900, 1969} {
		w := creation("in-"+strconv.Itoa(year), 0)
		w.Timer.At = time.Date(year, 6, 1, 0, 0, 0, 0, time.UTC)
		answer := s.Merge(t.Context(), []store.Write{w})[0]
		if answer.Err != nil || answer.Wait > 0 || !answer.Due.Equal(w.Timer.At) {
			t.Errorf("year %d: due %v, in %v, %v", year, answer.Due, answer.Wait, answer.Err)
		}
		result, err := claimAll(t.Context(), s, "a")
		if err != nil || len(result.Claims) != 1 || result.Claims[0].DueIn > 0 {
			t.Fatalf("year %d: claimed %+v, %v", year, result.Claims, err)
		}
		lease := result.Claims[0].Lease
		fenced := s.Fire(t.Context(), "a", terms(), []store.Fence{{Lease: lease, Pops: 1}})[0]
		if fenced.Status != store.FencePassed || fenced.Late <= 0 || !fenced.Due.Equal(w.Timer.At) {
			t.Errorf("year %d: fenced as %+v", year, fenced)
		}
		settled := s.Settle(t.Context(), "a", []store.Settlement{{Lease: lease, Outcome: store.OutcomeDone}})[0]
		if !settled.Accepted {
			t.Errorf("year %d: settled as %+v", year, settled)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	config := endpoint.Config{Name: "a", URL: "redis://127.0.0.1:1"}
	for name, o := range map[string]Options{
		"no shards": options(io.Discard), "no node": {Shards: []endpoint.Config{config}, Lane: "http"},
		"no lane": {Shards: []endpoint.Config{config}, Node: "n"}, "colon in the node": {Shards: []endpoint.Config{config}, Node: "a:b", Lane: "http"},
		"space in the node": {Shards: []endpoint.Config{config}, Node: "a b", Lane: "http"},
		"bad URL":           options(io.Discard, endpoint.Config{Name: "a", URL: "redis://:s3cret@h:port"}),
	} {
		s, err := Open(t.Context(), o)
		if err == nil {
			_ = s.Close()
			t.Errorf("%s: opened", name)
		} else if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Only a shard that loses timers when it is killed causes a warning.
func TestShardsWithoutAppendOnlyFileAreWarnedAbout(t *testing.T) {
	t.Parallel()
	const nothing, snapshots = "persists nothing", "since its last snapshot"
	for _, c := range []struct {
		name string
		args []string
		want string // the warning, "" for no warning
	}{
		{"nothing", []string{"--appendonly", "no", "--save", ""}, nothing},
		{"append-only file", []string{"--appendonly", "yes", "--save", ""}, ""},
		{"append-only file and snapshots", []string{"--appendonly", "yes", "--save", "60 1"}, ""},
		{"snapshots", []string{"--appendonly", "no", "--save", "60 1"}, snapshots},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log testkit.Log
			openShards(t, &log, shardOf("a", testkit.StartRedis(t, c.args...)))
			for _, warning := range []string{nothing, snapshots} {
				if got := strings.Contains(log.String(), warning); got != (c.want == warning) {
					t.Errorf("warned that it %s: %t:\n%s", warning, got, log.String())
				}
			}
			if warned := strings.Contains(log.String(), "set appendonly yes"); warned != (c.want != "") {
				t.Errorf("advice given: %t:\n%s", warned, log.String())
			}
		})
	}
}

// startCluster starts a cluster of one node.
func startCluster(t *testing.T) *testkit.Redis {
	t.Helper()
	p := testkit.StartRedis(t, "--cluster-enabled", "yes")
	p.Do("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
	testkit.Eventually(t, testkit.Soon, "the cluster to be whole", func() bool {
		info, _ := p.Admin.ClusterInfo(t.Context()).Result()
		return strings.Contains(info, "cluster_state:ok")
	})
	return p
}

// A cluster of one node: every key of a script is in one slot, claims go to all partitions, and calls that a silent
// node didn't answer are not sent to the node again.
func TestCluster(t *testing.T) {
	t.Parallel()
	p := startCluster(t)
	s := openShards(t, io.Discard, endpoint.Config{Name: "a", URL: "redis+cluster://" + p.Address})
	p.Do("SCRIPT", "FLUSH")
	const timers = 100
	for i := range timers {
		merge(t, s, creation(strconv.Itoa(i), 0))
	}
	fired := 0
	testkit.Eventually(t, testkit.Soon, "all to be fired", func() bool {
		result, err := claimAll(t.Context(), s, "a")
		if err != nil {
			t.Fatal(err)
		}
		if err := fireAll(t.Context(), s, "a", result.Claims, store.OutcomeDone); err != nil {
			t.Fatal(err)
		}
		fired += len(result.Claims)
		return fired == timers
	})
	if said, err := s.Beat(t.Context(), "a", store.Announcement{Clock: time.Now()}); err != nil || !slices.Equal(namesOfLive(said), []string{"node-1"}) {
		t.Errorf("nodes %v, %v", said.Nodes, err)
	}
	if err := s.Dedicate(t.Context(), "tea"); err != nil {
		t.Error(err)
	}
	if err := s.Dedicate(t.Context(), "coffee"); !errors.Is(err, ErrDedicated) {
		t.Errorf("for something else: %v, want that it is for tea", err)
	}
	if survey, err := s.Survey(t.Context(), "a"); err != nil || survey.Pending+survey.Tombstones != 0 {
		t.Errorf("survey %+v, %v", survey, err)
	}
	merge(t, s, creation("kept", time.Hour))

	before, watch := p.Calls("evalsha"), heldup.Begin(t)
	p.Signal(syscall.SIGSTOP)
	begin := time.Now()
	_, err := claimAll(t.Context(), s, "a")
	watch.AtMost(t, begin, "a claim from a silent cluster", time.Since(begin), answered)
	if !errors.Is(err, timer.ErrUnavailable) {
		t.Errorf("claim from a silent cluster: %v", err)
	}
	p.Signal(syscall.SIGCONT)
	testkit.Eventually(t, testkit.Soon, "the claim to be executed", func() bool { return p.Calls("evalsha") >= before+Partitions })
	if err := read(t, s, "kept").Err; err != nil {
		t.Errorf("the first request after it went on: %v", err)
	}
	if n := p.Calls("evalsha") - before; n > Partitions+1 {
		t.Errorf("a claim and a read are executed as %d scripts, want %d: the claim was sent again", n, Partitions+1)
	}
}

// A socket does as well as a host.
func TestUnixSocket(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	testkit.StartRedis(t, "--unixsocket", socket)
	if s := openShards(t, io.Discard, endpoint.Config{Name: "a", URL: "unix://" + socket}); !works(t, s, "x") {
		t.Error("nothing is stored over a socket")
	}
}

// No password gets into the log or an error, whatever happens to the shard.
func TestSecretsStaySecret(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	p := testkit.StartRedis(t, "--requirepass", "another")
	var log testkit.Log
	var faults []error
	tell := func(s *Store) {
		faults = append(faults, read(t, s, "x").Err, s.Merge(t.Context(), []store.Write{creation("x", 0)})[0].Err)
		_, claimed := claimAll(t.Context(), s, "a")
		_, beaten := s.Beat(t.Context(), "a", store.Announcement{Clock: time.Now()})
		_, surveyed := s.Survey(t.Context(), "a")
		faults = append(faults, claimed, beaten, surveyed, s.Leave(t.Context(), "a"))
	}
	for _, url := range []string{"redis://user-hunter2:hunter2@%s/0", "redis+cluster://:hunter2@%s", "redis+sentinel://:hunter2@%s?master_name=m"} {
		s := openShards(t, &log, endpoint.Config{Name: "a", URL: fmt.Sprintf(url, p.Address)})
		tell(s)
	}
	p.Kill()
	for _, url := range []string{"redis://:hunter2@%s/0", "redis+cluster://:hunter2@%s", "redis+sentinel://:hunter2@%s?master_name=m", "rediss://:hunter2@%s"} {
		s := openShards(t, &log, endpoint.Config{Name: "a", URL: fmt.Sprintf(url, p.Address)})
		tell(s)
	}
	if n := strings.Count(log.String(), "level=WARN"); n < 7 {
		t.Errorf("%d warnings, want one for each of 7 stores:\n%s", n, log.String())
	}
	if strings.Contains(log.String(), secret) {
		t.Errorf("the log has the password:\n%s", log.String())
	}
	for _, err := range faults {
		if !errors.Is(err, timer.ErrUnavailable) || strings.Contains(err.Error(), secret) {
			t.Errorf("error %v, want ErrUnavailable without the password", err)
		}
	}
}

// The store's Dial connects to a shard that the node wasn't started with.
func TestDialOfShardsThatCome(t *testing.T) {
	dial := func(to chan<- string) func(context.Context, string, string) (net.Conn, error) {
		return func(_ context.Context, _, address string) (net.Conn, error) {
			select {
			case to <- address:
			default:
			}
			return nil, errors.New("refused by the test")
		}
	}
	start, later := make(chan string, 1), make(chan string, 1)
	o := Options{
		Shards: []endpoint.Config{{Name: "a", URL: "redis://a.test", Dial: dial(start)}}, Node: "n", Lane: "http", Log: slog.New(slog.DiscardHandler), Dial: dial(later),
	}
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	sh, err := s.connector(&o)(topology.Member{Name: "b", URL: "redis://b.test"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sh.Close() }()
	if _, err := sh.Holds(t.Context()); err == nil || !strings.Contains(err.Error(), "refused by the test") {
		t.Errorf("error %v, want that of Dial", err)
	}
	if a, b := <-start, <-later; a != "a.test:6379" || b != "b.test:6379" {
		t.Errorf("dialed %s and %s", a, b)
	}
}

func namesOfLive(said store.Announced) (names []string) {
	for _, node := range said.Nodes {
		names = append(names, node.Name)
	}
	return names
}
