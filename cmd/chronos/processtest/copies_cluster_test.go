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

// shardNames are the shards of a cluster; startNode names the first main.
var shardNames = []string{"main", "b", "c"}

// cluster is the nodes and shards of a scenario, all processes of their own.
type cluster struct {
	t       *testing.T
	journal *journal
	shards  []*shardProcess
	nodes   []*member
	logs    []nodeLog

	mu sync.Mutex // guards which nodes get requests
}

// nodeLog is what a node logs.
type nodeLog struct {
	name string
	log  *testkit.Log
}

type shardProcess struct {
	*testkit.Redis
	name string
}

// member is a node and those that took its place.
type member struct {
	*nodeProcess
	name     string
	process  int     // how many have been it
	serving  bool    // requests are sent to it
	links    []*link // to the shards, if there are any
	shardURL string  // of all
}

// newCluster starts shards and nodes; if the scenario is proxied, each node speaks to
// each shard through a link.
func newCluster(t *testing.T, j *journal, scenario *scenario) *cluster {
	t.Helper()
	c := &cluster{t: t, journal: j}
	for _, name := range scenario.shardNames() {
		s := &shardProcess{name: name, Redis: testkit.NewRedis(t)}
		c.shards = append(c.shards, s)
		c.startShard(s)
	}
	for i := range cmp.Or(scenario.nodes, 2) {
		m := &member{name: "n" + strconv.Itoa(i+1)}
		for _, s := range c.shards {
			url := s.URL
			if scenario.proxied {
				l := newLink(t, s.Address)
				m.links = append(m.links, l)
				url = l.url()
			}
			if m.shardURL != "" { // startNode names the first
				url = "," + s.name + "=" + url
			}
			m.shardURL += url
		}
		c.nodes = append(c.nodes, m)
		c.startNode(m)
	}
	return c
}

// startShard starts a shard with what is in its folder, and returns when it
// answers.
//
// It is told appendfsync no. With everysec, its default, a redis-server may answer
// before it has handed what it wrote to the kernel, while an fsync is under way
// (aof_buffer_length says how much), so that SIGKILL loses the last writes; that
// can be looked for before the kill, but not kept from happening under load. With
// no it hands over each write before it answers, as with always, and what the
// kernel has survives the process: then a kill is nothing but a shard away, and
// the checker is allowed no loss at all.
func (c *cluster) startShard(s *shardProcess) {
	c.t.Helper()
	s.Start()
	if err := s.Admin.ConfigSet(c.t.Context(), "appendfsync", "no").Err(); err != nil {
		c.t.Fatalf("shard %s: %v", s.name, err)
	}
}

func (c *cluster) startNode(m *member) {
	c.t.Helper()
	n := startNode(c.t, m.shardURL)
	c.mu.Lock()
	m.nodeProcess, m.serving = n, true
	m.process++
	c.mu.Unlock()
	c.logs = append(c.logs, nodeLog{m.name + "-" + strconv.Itoa(m.process), n.Log})
}

// end ends all processes: what is recorded is all that there will be.
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

// pick draws a node for a request.
func (c *cluster) pick(r *rand.Rand) (name, url string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := r.IntN(len(c.nodes))
	for i := range c.nodes {
		if m := c.nodes[(first+i)%len(c.nodes)]; m.serving {
			return m.name, m.url
		}
	}
	return c.nodes[first].name, c.nodes[first].url
}

// killShard ends a shard at once. What it returns starts it again and ends the
// fault.
func (c *cluster) killShard(s *shardProcess, kind string, class history.Class) (back func()) {
	end := c.journal.begin(history.Fault{Kind: kind, Class: class, Shard: s.name, Restarted: true})
	s.Kill()
	return func() {
		c.startShard(s)
		end()
	}
}

// wipe empties the folder of a shard that is down.
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

// stopShard has a shard stand still until what it returns is called.
func (c *cluster) stopShard(s *shardProcess) (back func()) {
	end := c.journal.begin(history.Fault{Kind: "stop", Class: history.ShardAway, Shard: s.name})
	s.Signal(syscall.SIGSTOP)
	return func() {
		s.Signal(syscall.SIGCONT)
		s.AwaitAnswer()
		end()
	}
}

// replace ends a node in good order and starts another in its place. It is no
// fault.
func (c *cluster) replace(m *member) {
	c.t.Helper()
	c.withdraw(m)
	if err := m.Stop(20 * time.Second); err != nil {
		c.t.Errorf("node %s ended with %v", m.name, err)
	}
	c.startNode(m)
}

// killNode ends a node at once; what it returns starts another in its place.
func (c *cluster) killNode(m *member) (back func()) {
	end := c.journal.begin(history.Fault{Kind: "death", Class: history.NodeDeath, Node: m.name})
	m.Kill()
	c.withdraw(m)
	return func() {
		c.startNode(m)
		end()
	}
}

// cut makes the link of one node to one shard what state says, until what it
// returns is called.
func (c *cluster) cut(m *member, shard int, kind string, state linkState) (back func()) {
	end := c.journal.begin(history.Fault{Kind: kind, Class: history.LinkCut, Node: m.name, Shard: shardNames[shard]})
	m.links[shard].set(state)
	return func() {
		m.links[shard].set(linkUp)
		end()
	}
}

// sample records what each node says of itself. Its size is not recorded, since it
// would not be comparable: a node begins cold here, and keeps idle workers, its
// connections and its heap for some minutes.
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
