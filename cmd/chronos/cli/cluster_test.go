package cli

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"chronos/api"
	"chronos/api/client"
	"chronos/api/ui/uitest"
)

func TestStatus(t *testing.T) {
	t.Parallel()
	b := uitest.New()
	r := serve(t, b)
	out, errs := r.run(Done, "status")
	for _, want := range []string{"no alarms\n", "SHARD", "NODE", "\na "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if errs != "" {
		t.Error(errs)
	}
	b.SetAway("b")
	if out, errs := r.run(Refused, "status"); !strings.HasPrefix(out, "ALARM shard-down: ") || errs != "" {
		t.Errorf("with an alarm: %s%s", out, errs)
	}
	out, _ = r.run(Refused, "status --json")
	var status client.Status
	if err := json.Unmarshal([]byte(out), &status); err != nil || len(status.Shards) != 3 || len(status.Alarms) == 0 || status.Alarms[0].Shard == nil {
		t.Errorf("%s, %v", out, err)
	}
	if _, errs := nowhere(t).run(Unreachable, "status"); !strings.Contains(errs, "--admin-url") {
		t.Error(errs)
	}
}

func TestHealthcheck(t *testing.T) {
	t.Parallel()
	var refused error
	r := serveAdmin(t, api.AdminConfig{Ready: func() error { return refused }})
	for what, want := range map[string]string{"": "ready\n", " ready": "ready\n", " live": "live\n"} {
		if out, errs := r.run(Done, "healthcheck"+what); out != want || errs != "" {
			t.Errorf("%s: %s%s", what, out, errs)
		}
	}
	refused = errors.New("no Redis answers")
	if _, errs := r.run(Refused, "healthcheck"); errs != "chronos: not ready: no Redis answers\n" {
		t.Error(errs)
	}
	r.run(Done, "healthcheck live")
	r.run(Misused, "healthcheck well")
	nowhere(t).run(Unreachable, "healthcheck live")
}

// In the image of a node the environment is the node's, which may have another port.
func TestHealthcheckOfTheNodeOfThisEnvironment(t *testing.T) {
	t.Parallel()
	r := serveAdmin(t, api.AdminConfig{})
	for listen, want := range map[string]int{strings.TrimPrefix(r.url, "http://"): Done, strings.Replace(r.url, "http://127.0.0.1", "", 1): Done, "127.0.0.1:1": Unreachable} {
		var out, errs strings.Builder
		line := CLI{In: strings.NewReader(""), Out: &out, Err: &errs, Environ: []string{"CHRONOS_ADMIN_LISTEN=" + listen}}
		if status := line.Run(t.Context(), []string{"healthcheck", "live"}); status != want {
			t.Errorf("%s: status %d, want %d: %s%s", listen, status, want, &out, &errs)
		}
	}
}
