package processtest

import (
	"bytes"
	"errors"
	"flag"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"chronos/api/client"
	"chronos/scheduler/verify/heldup"
	"chronos/scheduler/verify/history"
	"chronos/scheduler/verify/testkit"
	"chronos/scheduler/webhook/webhooktest"
)

// before is the last commit whose nodes know the first format of records alone.
const before = "9d6474a"

var beforeBinary = flag.String("node.before", "", "TestRollingUpgrade: absolute path of the build to upgrade from; built from the commit "+before+" if empty")

// TestRollingUpgrade upgrades three nodes on three shards one after another under load, takes the upgrade back, and upgrades a node
// again. A node each way is killed, the remaining nodes are stopped. Clients write through nodes of both builds. No timer is lost,
// early, or called twice without a death as the reason. Nodes of the earlier build leave timers of the second format alone.
func TestRollingUpgrade(t *testing.T) {
	testkit.Program(t, "redis-server")
	earlier := *beforeBinary
	if earlier == "" {
		earlier = buildCommit(t, before)
	}
	runAlone(t, "TestRollingUpgrade", func(plan) *scenario {
		return &scenario{
			name: "upgrade", nodes: 3, before: earlier, mix: upgradeMix, inject: (*rig).upgrade, limits: lookedAtSeldom, after: (*rig).judgeUpgrade,
		}
	})
}

// buildCommit builds the node of a commit of this repository, in a temporary folder.
func buildCommit(t *testing.T, commit string) string {
	t.Helper()
	output := func(dir, name string, args ...string) []byte {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		var errs bytes.Buffer
		cmd.Dir, cmd.Stderr = dir, &errs
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, errs.Bytes())
		}
		return out
	}
	root := strings.TrimSpace(string(output(".", "git", "rev-parse", "--show-toplevel")))
	if err := exec.CommandContext(t.Context(), "git", "-C", root, "cat-file", "-e", commit+"^{commit}").Run(); err != nil {
		t.Fatalf("the clone lacks the commit %s, from which nodes are upgraded (%v): fetch the whole history (git fetch --unshallow)", commit, err)
	}
	dir := t.TempDir()
	archive := filepath.Join(dir, "tree.tar")
	output(root, "git", "archive", "--output", archive, commit)
	output(dir, "tar", "-xf", archive)
	path := filepath.Join(dir, "chronos-"+commit)
	output(dir, "go", "build", "-o", path, "./cmd/chronos")
	return path
}

func upgradeMix(m *mix) { m.rate, m.members = 200, 0.5 }

// lookedAtSeldom is for timers that the owner of their partition can't read. The third node of a partition looks for
// neglected timers every 0.8 s.
func lookedAtSeldom(l *history.Limits, _ *history.History) {
	l.MinInWindows = 0.05
	l.Late += time.Second
}

const betweenTurns = 3 * time.Second

// upgrade replaces all nodes by nodes of the build under test, then by nodes of the earlier build, then a node once more.
func (r *rig) upgrade() {
	nodes, earlier := r.cluster.nodes, r.scenario.before
	killed := rand.IntN(len(nodes))
	for i, m := range nodes {
		r.turn(m, binary, i == killed)
		r.wait(betweenTurns)
		if i+1 < len(nodes) {
			r.wantRefused(nodes[0])
		}
	}
	r.wantTaken(nodes[0])
	r.load.members.Store(true)
	r.wait(3 * betweenTurns) // with upgraded nodes alone
	held := r.holdBack(nodes[0])
	r.load.members.Store(false)
	killed = rand.IntN(len(nodes) - 1)
	for i, m := range nodes[1:] {
		r.turn(m, earlier, i == killed)
		r.wait(betweenTurns)
	}
	r.wait(recurringPops*r.load.mix.longestRecurring + 2*time.Second) // until no timer of the load has the second format
	r.turn(nodes[0], earlier, false)
	held.wantLeftAlone(r)
	r.turn(nodes[0], binary, false)
	held.wantCalled(r)
	r.wait(betweenTurns)
}

// marked is a timer that only the second format has room for.
func marked(interval time.Duration, url string) client.Timer {
	return client.Timer{
		Interval: interval, URI: url + webhooktest.PutSuffix, Opaque: "marked", Method: http.MethodPut,
		Headers: map[string]string{webhooktest.AskedHeader: webhooktest.PutSuffix},
	}
}

// wantRefused checks that an upgraded node takes no timer of the second format while an earlier node is live.
func (r *rig) wantRefused(upgraded *member) {
	r.t.Helper()
	c, url := clientOf(r.t, upgraded.nodeProcess), "http://127.0.0.1:9/"
	_, err := c.Create(r.t.Context(), marked(time.Hour, url))
	r.wantUpgradeUnderWay("a timer of the second format", err)
	plain, err := c.Create(r.t.Context(), client.Timer{Interval: time.Hour, URI: url})
	if err != nil {
		r.t.Fatal(err)
	}
	_, err = c.Patch(r.t.Context(), plain.ID, client.Change{Opaque: new("patched")})
	r.wantUpgradeUnderWay("a PATCH", err)
	if _, err := c.Delete(r.t.Context(), plain.ID); err != nil {
		r.t.Error(err)
	}
}

func (r *rig) wantUpgradeUnderWay(what string, err error) {
	r.t.Helper()
	if problem, ok := errors.AsType[*client.Problem](err); !ok || problem.Code != "upgrade-under-way" {
		r.t.Errorf("%s while an earlier node is live: %v, want upgrade-under-way", what, err)
	}
}

// wantTaken waits until an upgraded node takes timers of the second format: the last earlier node has gone.
func (r *rig) wantTaken(upgraded *member) {
	r.t.Helper()
	c := clientOf(r.t, upgraded.nodeProcess)
	testkit.Eventually(r.t, testkit.Soon, "timers of the second format are taken", func() bool {
		made, err := c.Create(r.t.Context(), marked(time.Hour, "http://127.0.0.1:9/"))
		if err == nil {
			_, err = c.Delete(r.t.Context(), made.ID)
		}
		return err == nil
	})
}

// turn replaces a node by a node of a build.
func (r *rig) turn(m *member, build string, kill bool) {
	r.t.Helper()
	back := func() {}
	if kill {
		back = r.cluster.killNode(m)
		r.wait(2 * time.Second)
	} else {
		r.cluster.stopNode(m)
	}
	m.build = build // no request is sent to the node now
	if kill {
		back()
	} else {
		r.cluster.startNode(m)
	}
	how := map[bool]string{false: "stopped", true: "killed"}[kill]
	r.t.Logf("%v: %s was %s, and is of the build %s now", r.now().Round(100*time.Millisecond), m.name, how, filepath.Base(build))
	r.turns = append(r.turns, r.now())
}

// heldBack are timers of the second format that are due while no node can read the format.
type heldBack struct {
	receiver *webhooktest.Receiver // of these timers alone: the judge knows no such delay
	due      time.Time
	ids      []string
}

// holdBack creates timers of the second format: a timer with a method and headers, and a timer with a PATCH.
func (r *rig) holdBack(upgraded *member) *heldBack {
	r.t.Helper()
	held := &heldBack{receiver: webhooktest.New(r.t)}
	const interval = 40 * time.Second // the way back takes some 30 s
	url := held.receiver.URL() + "/"
	plain := (&api{client: r.load.http}).create(r.t, upgraded.nodeProcess, interval, url, "first")
	held.due = plain.due
	c := clientOf(r.t, upgraded.nodeProcess)
	if _, err := c.Patch(r.t.Context(), plain.id.String(), client.Change{Opaque: new("patched")}); err != nil {
		r.t.Fatal(err)
	}
	made, err := c.Create(r.t.Context(), marked(interval, url))
	if err != nil {
		r.t.Fatal(err)
	}
	held.ids = []string{plain.id.String(), made.ID}
	return held
}

// wantLeftAlone waits until the timers are overdue, and checks that no node calls or changes the timers.
func (held *heldBack) wantLeftAlone(r *rig) {
	r.t.Helper()
	if late := time.Since(held.due); late > 0 {
		r.t.Fatalf("the last upgraded node was replaced %v after its timers were due", late)
	}
	r.wait(time.Until(held.due) + 3*time.Second)
	for _, m := range r.cluster.nodes {
		for _, id := range held.ids {
			for method, body := range map[string]string{http.MethodGet: "", http.MethodPut: timerBody(time.Second, held.receiver.URL(), "again"), http.MethodDelete: ""} {
				got, err := testkit.Ask(nil, method, m.url+"/timers/"+id, body)
				if err != nil || got.Status != http.StatusServiceUnavailable || !strings.Contains(got.Body, `"upgrade-under-way"`) {
					r.t.Errorf("%s of %s through %s of the earlier build: %d %s, %v; want 503 upgrade-under-way", method, id, m.name, got.Status, got.Body, err)
				}
			}
		}
	}
	if calls := held.receiver.Calls(); len(calls) > 0 {
		r.t.Errorf("nodes that can't read the timers have called: %v", calls)
	}
}

// wantCalled checks that each timer is called once, as asked, now that a node is upgraded again. The earlier nodes have put
// the timers off by up to 10 s.
func (held *heldBack) wantCalled(r *rig) {
	r.t.Helper()
	called := func() map[string]int {
		all := make(map[string]int)
		for _, c := range held.receiver.Calls() {
			all[c.Body]++
		}
		return all
	}
	watch, upgraded := heldup.Begin(r.t), time.Now()
	testkit.Eventually(r.t, 40*time.Second, "the timers are called that were held back", func() bool { return len(called()) == len(held.ids) })
	watch.AtMost(r.t, upgraded, "the time from the upgrade to the callbacks that were held back", time.Since(upgraded), 12*time.Second)
	r.wait(time.Second)
	if got := called(); got["marked"] != 1 || got["patched"] != 1 || len(got) != 2 {
		r.t.Errorf("the timers that were held back are called with %v; want marked and patched, once each", got)
	}
}

// judgeUpgrade makes sure that timers of the second format were called, some of them while nodes of both builds ran.
func (r *rig) judgeUpgrade(h *history.History, _ *history.Report) {
	both, all := 0, 0
	for i := range h.Callbacks {
		if c := &h.Callbacks[i]; strings.HasSuffix(c.URL, webhooktest.PutSuffix) {
			all++
			if at := time.Duration(c.ArriveNs); at < r.turns[2] || at > r.turns[3] {
				both++
			}
		}
	}
	r.t.Logf("%d callbacks of timers of the second format, %d of these while nodes of both builds ran", all, both)
	if both < 20 || all < 300 {
		r.t.Errorf("%d callbacks of timers of the second format, and %d of these while nodes of both builds ran: too few", all, both)
	}
}
