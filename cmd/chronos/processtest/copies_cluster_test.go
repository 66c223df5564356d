package processtest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"chronos/scheduler/verify/history"
	"chronos/scheduler/verify/testkit"
)

// shardNames are the shards of a cluster; startNode names the first shard main.
var shardNames = []string{"main", "b", "c"}

// cluster is the nodes and shards of a scenario. Every node and every shard is a process.
type cluster struct {
	t       *testing.T
	journal *journal
	shards  []*shardProcess
	nodes   []*member
	logs    []nodeLog

	mu sync.Mutex // guards the choice of the nodes for requests
}

// nodeLog is the log of a node.
type nodeLog struct {
	name string
	log  *testkit.Log
}

type shardProcess struct {
	*testkit.Redis
	name string
	site string // "" without sites
}

// member is a node with all its successors.
type member struct {
	*nodeProcess
	name     string
	process  int     // number of processes so far
	serving  bool    // gets requests
	build    string  // of the next process
	links    []*link // to the shards, if any; with sites, to the shards of the other sites
	shardURL string  // of all shards
	site     string  // "" without sites
	env      []string
}

// newCluster starts shards and nodes. If the scenario is proxied, every node speaks to every
// shard through a link.
func newCluster(t *testing.T, j *journal, scenario *scenario) *cluster {
	t.Helper()
	c := &cluster{t: t, journal: j}
	if len(scenario.sites) > 0 {
		c.startSites(scenario)
		return c
	}
	for _, name := range scenario.shardNames() {
		s := &shardProcess{name: name, Redis: testkit.NewRedis(t)}
		c.shards = append(c.shards, s)
		c.startShard(s)
	}
	for i := range cmp.Or(scenario.nodes, 2) {
		m := &member{name: "n" + strconv.Itoa(i+1), build: cmp.Or(scenario.before, binary)}
		for _, s := range c.shards {
			url := s.URL
			if scenario.proxied {
				l := newLink(t, s.Address)
				m.links = append(m.links, l)
				url = l.url()
			}
			if m.shardURL != "" { // startNode names the first shard
				url = "," + s.name + "=" + url
			}
			m.shardURL += url
		}
		c.nodes = append(c.nodes, m)
		c.startNode(m)
	}
	return c
}

// startShard starts a shard with the data in its folder, and returns when the shard answers.
//
// The shard runs with appendfsync no. With the default, everysec, a redis-server may answer a
// write before the kernel has the write, while an fsync is under way; aof_buffer_length tells
// how much. SIGKILL then loses the last writes. A test can look at aof_buffer_length before
// the kill, but can't avoid the loss under load. With no, as with always, a redis-server hands
// every write to the kernel before the answer. The kernel's data survives the process, so a
// kill is only a shard away, and the checker allows no loss at all.
func (c *cluster) startShard(s *shardProcess) {
	c.t.Helper()
	s.Start()
	if err := s.Admin.ConfigSet(c.t.Context(), "appendfsync", "no").Err(); err != nil {
		c.t.Fatalf("shard %s: %v", s.name, err)
	}
}

func (c *cluster) startNode(m *member) {
	c.t.Helper()
	n := startBuild(c.t, m.build, m.shardURL, m.env...)
	c.mu.Lock()
	defer c.mu.Unlock()
	m.nodeProcess, m.serving = n, true
	m.process++
	c.logs = append(c.logs, nodeLog{m.name + "-" + strconv.Itoa(m.process), n.Log})
}

// end ends all processes: the recording is complete.
func (c *cluster) end() {
	for _, m := range c.nodes {
		m.Kill()
	}
	for _, s := range c.shards {
		s.Kill()
	}
}

// withdraw sends no more requests to a node.
func (c *cluster) withdraw(m *member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m.serving = false
}

// pick draws a node for a request: of all nodes, or of the upgraded nodes alone. Without such a node in service the
// request goes to any node.
func (c *cluster) pick(r *rand.Rand, upgraded bool) (name, url string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := r.IntN(len(c.nodes))
	for i := range c.nodes {
		if m := c.nodes[(first+i)%len(c.nodes)]; m.serving && (!upgraded || m.build == binary) {
			return m.name, m.url
		}
	}
	return c.nodes[first].name, c.nodes[first].url
}

// killShard ends a shard at once; back starts the shard again and ends the fault.
func (c *cluster) killShard(s *shardProcess, kind string, class history.Class) (back func()) {
	end := c.journal.begin(history.Fault{Kind: kind, Class: class, Shard: s.name, Restarted: true})
	s.Kill()
	return func() {
		c.startShard(s)
		end()
	}
}

// wipe empties the folder of a dead shard.
func (s *shardProcess) wipe(t *testing.T) {
	t.Helper()
	entries, err := os.ReadDir(s.Dir)
	if err != nil || len(entries) == 0 {
		t.Fatalf("shard %s has no data: %v", s.name, err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(s.Dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
}

// stopShard makes a shard stand still until back is called.
func (c *cluster) stopShard(s *shardProcess) (back func()) {
	end := c.journal.begin(history.Fault{Kind: "stop", Class: history.ShardAway, Shard: s.name})
	s.Signal(syscall.SIGSTOP)
	return func() {
		s.Signal(syscall.SIGCONT)
		s.AwaitAnswer()
		end()
	}
}

// replace ends a node in good order and starts a successor. A replacement is no fault.
func (c *cluster) replace(m *member) {
	c.t.Helper()
	c.stopNode(m)
	c.startNode(m)
}

func (c *cluster) stopNode(m *member) {
	c.t.Helper()
	c.withdraw(m)
	if err := m.Stop(20 * time.Second); err != nil {
		c.t.Errorf("node %s ended with %v", m.name, err)
	}
}

// killNode ends a node at once; back starts a successor.
func (c *cluster) killNode(m *member) (back func()) {
	end := c.journal.begin(history.Fault{Kind: "death", Class: history.NodeDeath, Node: m.name})
	m.Kill()
	c.withdraw(m)
	return func() {
		c.startNode(m)
		end()
	}
}

// cut puts the link of a node to a shard into the state, until back is called.
func (c *cluster) cut(m *member, shard int, kind string, state linkState) (back func()) {
	end := c.journal.begin(history.Fault{Kind: kind, Class: history.LinkCut, Node: m.name, Shard: shardNames[shard]})
	m.links[shard].set(state)
	return func() {
		m.links[shard].set(linkUp)
		end()
	}
}

// sample records the counters of every node. The sizes of nodes are not recorded, since a
// comparison would be wrong: a node begins cold here, and keeps idle workers, connections and
// heap for some minutes.
func (c *cluster) sample(phase history.Phase) {
	c.t.Helper()
	for _, m := range c.nodes {
		s := history.Sample{Node: m.name, Process: m.process, Phase: phase, AtNs: c.journal.now(), Counters: make(map[string]int64)}
		if err := readMetrics(m.admin+"/metrics", &s); err != nil {
			c.t.Fatalf("metrics of node %s: %v", m.name, err)
		}
		c.t.Logf("%s: node %s process %d has %d MiB, %d goroutines, %d descriptors, took over %d leases and lost %d",
			phase, m.name, m.process, s.MemoryBytes>>20, s.Goroutines, s.Descriptors, s.Counters["takeovers_total"], s.Counters["leases_lost_total"])
		s.MemoryBytes, s.Goroutines, s.Descriptors = 0, 0, 0
		c.journal.sample(s)
	}
}

var (
	metricLine  = regexp.MustCompile(`(?m)^([a-z_]+)(?:\{([^}]*)\})? (\S+)$`)
	resultLabel = regexp.MustCompile(`result="([a-z]+)"`)
)

func readMetrics(url string, s *history.Sample) error {
	got, err := testkit.Ask(nil, http.MethodGet, url, "")
	if err != nil {
		return err
	}
	for _, found := range metricLine.FindAllStringSubmatch(got.Body, -1) {
		value, err := strconv.ParseFloat(found[3], 64)
		if err != nil {
			continue
		}
		switch found[1] {
		case "go_goroutines":
			s.Goroutines = int64(value)
		case "process_open_fds":
			s.Descriptors = int64(value)
		case "process_resident_memory_bytes":
			s.MemoryBytes = int64(value)
		case "chronos_fired_total":
			if label := resultLabel.FindStringSubmatch(found[2]); label != nil {
				s.Counters["fired_"+label[1]] = int64(value)
			}
		case "chronos_settled_total":
			s.Counters["settled"] += int64(value)
		case "chronos_takeovers_total", "chronos_leases_lost_total", "chronos_pops_left_out_total":
			s.Counters[strings.TrimPrefix(found[1], "chronos_")] = int64(value)
		}
	}
	if _, ok := s.Counters[history.CountDelivered]; !ok || s.Goroutines == 0 {
		return fmt.Errorf("status %d, and something is missing", got.Status)
	}
	return nil
}
