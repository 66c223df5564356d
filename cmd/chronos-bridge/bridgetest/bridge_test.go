package bridgetest

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"chronos/cmd/internal/localtoken"
	"chronos/scheduler/verify/testkit"
)

// bridge is the process of a bridge.
type bridge struct {
	*testkit.Process
	name, id, admin string
	token           string // of the admin listener
}

var upLine = regexp.MustCompile(`msg="bridge is up" node=(\S+) admin=(\S+)\s`)

// startBridge starts a further bridge, and returns when the bridge is ready.
func (r *rig) startBridge() *bridge {
	r.t.Helper()
	r.started++
	b := &bridge{name: fmt.Sprint("bridge-", r.started), Process: testkit.Start(r.t, r.environ(), binary)}
	r.logs = append(r.logs, b)
	r.bridges = append(r.bridges, b)
	up := testkit.Await(r.t, 20*time.Second, "the bridge is up", func() bool {
		found := upLine.FindStringSubmatch(b.Log.String())
		if found != nil {
			b.id, b.admin = found[1], found[2]
			made, err := localtoken.Find(b.Cmd.Env, b.admin)
			if err != nil {
				r.t.Fatal(err)
			}
			b.token = made.Token
		}
		return found != nil
	})
	ready := up && testkit.Await(r.t, 10*time.Second, "the bridge is ready", func() bool {
		status, _, err := b.get("/readyz")
		return err == nil && status == http.StatusOK
	})
	if !ready {
		r.t.FailNow()
	}
	return b
}

func (r *rig) environ() []string {
	var urls []string
	for _, s := range r.stores {
		urls = append(urls, s.url())
	}
	return append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + r.t.TempDir(), "XDG_RUNTIME_DIR=" + r.t.TempDir(),
		"CHRONOS_KAFKA_BROKERS=" + r.broker.Addr(), "CHRONOS_KAFKA_INPUT=" + r.input, "CHRONOS_KAFKA_OUTPUT=" + r.output,
		"CHRONOS_KAFKA_DEAD_LETTERS=" + r.deadLetters, "CHRONOS_KAFKA_GROUP=" + r.group,
		"CHRONOS_KAFKA_REPLICATION=" + strconv.Itoa(r.scenario.copies), "CHRONOS_REDIS=" + strings.Join(urls, ","),
		"CHRONOS_BRIDGE_ADMIN_LISTEN=127.0.0.1:0",
	}, r.scenario.environ...) // a later entry of the same name counts
}

// stopBridge ends a bridge in good order.
func (r *rig) stopBridge(b *bridge) {
	r.t.Helper()
	r.forget(b)
	begun := time.Now()
	if err := b.Stop(20 * time.Second); err != nil {
		r.t.Error(err)
	}
	r.t.Logf("%s has ended %v after SIGTERM", b.name, time.Since(begun).Round(time.Millisecond))
}

func (r *rig) forget(b *bridge) {
	for i, other := range r.bridges {
		if other == b {
			r.bridges = append(r.bridges[:i:i], r.bridges[i+1:]...)
			return
		}
	}
}

func (b *bridge) get(path string) (status int, body string, err error) {
	return b.ask(http.MethodGet, path)
}

// ask asks the admin listener as an operator does.
func (b *bridge) ask(method, path string) (status int, body string, err error) {
	got, err := testkit.Ask(nil, method, b.admin+path, "", "Authorization", "Bearer "+b.token)
	return got.Status, got.Body, err
}

// metric is the value of a metric without labels, -1 if unreadable.
func (b *bridge) metric(name string) float64 {
	if _, body, err := b.get("/metrics"); err == nil {
		for line := range strings.Lines(body) {
			if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok {
				if v, err := strconv.ParseFloat(value, 64); err == nil {
					return v
				}
			}
		}
	}
	return -1
}

// assignments is how often partitions have come to the bridge or have gone.
func (b *bridge) assignments() int {
	log := b.Log.String()
	return strings.Count(log, `msg="partitions have come"`) + strings.Count(log, `msg="partitions have gone"`)
}
