package cli

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"chronos/api"
	"chronos/api/tokens"
	"chronos/api/ui/uitest"
	"chronos/api/wire"
)

// now is the instant of all tests.
var now = time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)

// anyone lets everyone do everything.
type anyone struct{}

func (anyone) Check([]byte, tokens.Role, time.Time) tokens.Decision {
	return tokens.Decision{Outcome: tokens.OK, Name: "anyone"}
}

// shownTopology shows the shards of a cluster in memory.
type shownTopology struct{ *uitest.Backend }

func (s shownTopology) Show(ctx context.Context) api.TopologyView {
	status, err := s.Status(ctx)
	if err != nil {
		return api.TopologyView{}
	}
	view := api.TopologyView{Epoch: status.Epoch, View: status.View}
	for _, shard := range status.Shards {
		view.Shards = append(view.Shards, wire.ShardView{Name: shard.Name, URL: shard.URL, State: shard.State, Copies: shard.Copies, Swept: shard.Swept, Problem: shard.Problem})
		view.Moving = view.Moving || shard.State != "active"
	}
	return view
}

// rig is an admin listener, and a command line that asks the listener.
type rig struct {
	t   *testing.T
	url string
	in  string // what the user types
}

// serve makes a rig for the cluster in memory.
func serve(t *testing.T, b *uitest.Backend) *rig {
	t.Helper()
	return serveAdmin(t, api.AdminConfig{
		Authorizer: anyone{}, Cluster: b, Topology: shownTopology{b}, Letters: b.Dead, Groups: b.Dead, Interventions: b, Lister: b, Changer: b,
	})
}

func serveAdmin(t *testing.T, config api.AdminConfig) *rig {
	t.Helper()
	admin := api.NewAdmin(config)
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- admin.Serve(ln) }()
	t.Cleanup(func() {
		if err := errors.Join(admin.Shutdown(context.WithoutCancel(t.Context())), <-served); err != nil {
			t.Error(err)
		}
	})
	return &rig{t: t, url: "http://" + ln.Addr().String()}
}

// run carries out a command line, whose words are separated by spaces, and checks the exit status.
func (r *rig) run(status int, line string, more ...string) (out, errs string) {
	r.t.Helper()
	out, errs, got := r.execute(append(strings.Fields(line), more...))
	if got != status {
		r.t.Errorf("%s: status %d, want %d\n%s%s", line, got, status, out, errs)
	}
	if strings.Contains(out+errs, "\x1b") {
		r.t.Errorf("%s sends orders to the terminal: %q", line, out+errs)
	}
	return out, errs
}

func (r *rig) execute(args []string) (out, errs string, status int) {
	var stdout, stderr strings.Builder
	line := CLI{
		In: strings.NewReader(r.in), Out: &stdout, Err: &stderr, Environ: []string{"CHRONOS_ADMIN_URL=" + r.url, "CHRONOS_TOKEN=t"}, Now: func() time.Time { return now },
		Node: func() int { r.t.Error("a node was started"); return 1 },
	}
	status = line.Run(r.t.Context(), args)
	return stdout.String(), stderr.String(), status
}

// nowhere is a rig without a listener.
func nowhere(t *testing.T) *rig {
	t.Helper()
	return &rig{t: t, url: "http://127.0.0.1:1"}
}
