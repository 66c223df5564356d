package processtest

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	chronosapi "chronos/api"
	"chronos/api/openapitest"
	"chronos/cmd/internal/localtoken"
	"chronos/scheduler/timer"
	"chronos/scheduler/verify/heldup"
	"chronos/scheduler/verify/testkit"
)

// binary is the node that all tests start: a given build, or else a build for this run.
var binary string

func TestMain(m *testing.M) {
	flag.StringVar(&binary, "node.binary", "", "absolute path of another build of the node, which all tests start")
	flag.Parse()
	var tests interface{ Run() int } = m
	if binary == "" {
		tests = testkit.WithBinary(m, "chronos/cmd/chronos", &binary)
	}
	os.Exit(heldup.Main(tests, os.Stderr))
}

type nodeProcess struct {
	*testkit.Process
	id, url, admin string
	token          string // of the admin listener, "" for a node with a file of tokens
}

var upLine = regexp.MustCompile(`msg="node is up" node=(\S+) timers=(\S+) admin=(\S+)\s`)

// startNode starts a node on shards, and returns when the node is ready. The first shard is
// named main.
func startNode(t *testing.T, redisURL string, env ...string) *nodeProcess {
	t.Helper()
	return startBuild(t, binary, redisURL, env...)
}

// startBuild starts a node of a build.
func startBuild(t *testing.T, build, redisURL string, env ...string) *nodeProcess {
	t.Helper()
	return awaitNode(t, testkit.Start(t, nodeEnv(t, redisURL, env...), build))
}

func nodeEnv(t *testing.T, redisURL string, more ...string) []string {
	t.Helper()
	return append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "XDG_RUNTIME_DIR=" + t.TempDir(), "CHRONOS_REDIS=main=" + redisURL,
		"CHRONOS_LISTEN=127.0.0.1:0", "CHRONOS_ADMIN_LISTEN=127.0.0.1:0",
	}, more...)
}

// awaitUp returns when a started node listens.
func awaitUp(t *testing.T, p *testkit.Process) *nodeProcess {
	t.Helper()
	n := &nodeProcess{Process: p}
	testkit.Eventually(t, 20*time.Second, "node is up", func() bool {
		found := upLine.FindStringSubmatch(n.Log.String())
		if found == nil {
			return false
		}
		n.id, n.url, n.admin = found[1], found[2], found[3]
		return true
	})
	made, err := localtoken.Find(p.Cmd.Env, n.admin)
	if err != nil {
		t.Fatal(err)
	}
	n.token = made.Token
	return n
}

// awaitNode returns when a started node is ready.
func awaitNode(t *testing.T, p *testkit.Process) *nodeProcess {
	t.Helper()
	n, said := awaitUp(t, p), ""
	defer func() {
		if t.Failed() {
			t.Logf("%s/readyz said last: %s", n.admin, said)
		}
	}()
	testkit.Eventually(t, 10*time.Second, "node is ready", func() (ready bool) {
		ready, said = readiness(n.admin)
		return ready
	})
	return n
}

// readiness is the answer of an admin listener to /readyz.
func readiness(admin string) (ready bool, said string) {
	got, err := testkit.Ask(nil, http.MethodGet, admin+"/readyz", "")
	if err != nil {
		return false, err.Error()
	}
	return got.Status == http.StatusOK, fmt.Sprint(got.Status, " ", got.Body)
}

// ask asks the admin listener as an operator does.
func (n *nodeProcess) ask(t *testing.T, method, path, body string) testkit.Answer {
	t.Helper()
	got, err := testkit.Ask(nil, method, n.admin+path, body, "Authorization", "Bearer "+n.token, "Content-Type", "application/json")
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// answer is a node's answer to a request.
type answer struct {
	status   int
	id       timer.ID
	due      time.Time
	inFlight bool
	asked    time.Time
	answered time.Time
	header   http.Header
	err      error
}

// api speaks to nodes with enough connections for many requests at once.
type api struct{ client *http.Client }

func newAPI(t *testing.T) *api {
	t.Helper()
	transport := newTransport()
	return &api{client: &http.Client{Transport: &sampler{all: transport, some: described(t).Transport(t, transport)}, Timeout: 5 * time.Second}}
}

func newTransport() *http.Transport {
	return &http.Transport{MaxIdleConnsPerHost: 512, IdleConnTimeout: 30 * time.Second}
}

// sampler checks the first exchange, and then one in a hundred, against the description: a check
// of thousands a second would slow down the node under test.
type sampler struct {
	all, some http.RoundTripper
	count     atomic.Int64
}

func (s *sampler) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.count.Add(1)%100 == 1 {
		return s.some.RoundTrip(r)
	}
	return s.all.RoundTrip(r)
}

// loadDescription loads the description that all traffic must match.
var loadDescription = sync.OnceValues(func() (*openapitest.Description, error) { return openapitest.Load(chronosapi.OpenAPI()) })

func described(t *testing.T) *openapitest.Description {
	t.Helper()
	description, err := loadDescription()
	if err != nil {
		t.Fatal(err)
	}
	return description
}

func (a *api) do(method, url, body string) (got answer) {
	got.asked = time.Now()
	defer func() { got.answered = time.Now() }()
	found, err := testkit.Ask(a.client, method, url, body)
	got.status, got.header, got.err = found.Status, found.Header, err
	got.inFlight = found.Header.Get("X-Chronos-In-Flight") == "true"
	var said struct {
		ID  string    `json:"id"`
		Due time.Time `json:"due"`
	}
	if got.status == http.StatusOK && method != http.MethodGet {
		got.err = errors.Join(got.err, json.Unmarshal([]byte(found.Body), &said))
		id, err := timer.ParseID(said.ID)
		got.id, got.due, got.err = id, said.Due, errors.Join(got.err, err)
	}
	return got
}

func timerBody(interval time.Duration, uri, opaque string) string {
	return fmt.Sprintf(`{"timing":{"interval":%.3f},"callback":{"http":{"uri":%q,"opaque":%q}}}`, interval.Seconds(), uri, opaque)
}

// create makes a one-shot timer; the request must succeed.
func (a *api) create(t *testing.T, node *nodeProcess, interval time.Duration, uri, opaque string) answer {
	t.Helper()
	got := a.do(http.MethodPost, node.url+"/timers", timerBody(interval, uri, opaque))
	if got.err != nil || got.status != http.StatusOK {
		t.Errorf("create: status %d, %v", got.status, got.err)
	}
	return got
}

// inParallel calls do n times, with so many workers, and returns when all calls are over.
func inParallel(n, workers int, do func(i int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range workers {
		wg.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}
