package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"chronos/cmd/internal/environment"
)

// configured carries out chronos config with the variables of a node.
func configured(t *testing.T, status int, args string, environ ...string) string {
	t.Helper()
	var stdout, stderr strings.Builder
	line := CLI{In: strings.NewReader(""), Out: &stdout, Err: &stderr, Environ: environ}
	if got := line.Run(t.Context(), strings.Fields("config "+args)); got != status || stderr.Len() != 0 {
		t.Errorf("config %s: status %d, want %d\n%s%s", args, got, status, &stdout, &stderr)
	}
	return stdout.String()
}

func TestConfig(t *testing.T) {
	t.Parallel()
	out := configured(t, Done, "", "CHRONOS_REDIS=a=redis://:hush@h:1", "CHRONOS_HOLD=5s", "CHRONOS_SLOTS=many")
	for _, want := range []string{"CHRONOS_REDIS ", " ***  ", "CHRONOS_HOLD ", " 5s ", " environment\n", "CHRONOS_POLL_INTERVAL ", " default\n", " many "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "hush") {
		t.Error("a password is shown")
	}
	if out := configured(t, Done, "--json", "CHRONOS_HOLD=5s"); !strings.Contains(out, `{"name":"CHRONOS_HOLD","value":"5s","from":"environment",`) {
		t.Error(out)
	}
	if out := configured(t, Done, "variables"); out != environment.TableOf[environment.Node]() {
		t.Error(out)
	}
}

func TestCheckConfig(t *testing.T) {
	t.Parallel()
	there, gone := miniredis.RunT(t), miniredis.RunT(t)
	lost := gone.Addr()
	gone.Close()
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte("no line of a token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := configured(t, Done, "check", "CHRONOS_REDIS=a=redis://:hush@"+there.Addr()); !strings.Contains(out, "nothing is wrong") || strings.Contains(out, "hush") {
		t.Error(out)
	}
	out := configured(t, Refused, "check", "CHRONOS_REDIS=a=redis://"+there.Addr()+",b=redis://:hush@"+lost, "CHRONOS_TOKENS_FILE="+file, "CHRONOS_DESTINATIONS_FILE="+file)
	for _, want := range []string{"WRONG: CHRONOS_TOKENS_FILE: ", "WRONG: CHRONOS_DESTINATIONS_FILE: ", "WRONG: Redis instance b: ", "\na  "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "hush") {
		t.Error("a password is shown")
	}
	out = configured(t, Refused, "check", "CHRONOS_HOLD=1s", "CHRONOS_SLOTS=many", "CHRONOS_SLOT=1")
	if strings.Count(out, "WRONG: ") != 3 {
		t.Error(out)
	}
}
