package environment

import (
	"strings"
	"testing"
)

func TestCommandValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		environ []string
		want    Command
	}{
		{nil, Command{URL: "http://127.0.0.1:7253", AdminURL: "http://127.0.0.1:7254"}},
		{[]string{"CHRONOS_URL=https://node-1/chronos/", "CHRONOS_ADMIN_URL=https://node-1:7254/", "CHRONOS_TOKEN=t"},
			Command{URL: "https://node-1/chronos", AdminURL: "https://node-1:7254", Token: "t"},
		},
		{leastBridge("CHRONOS_ADMIN_URL=http://[::1]:7255"), Command{URL: "http://127.0.0.1:7253", AdminURL: "http://[::1]:7255"}},
	} {
		if got, err := LoadCommand(c.environ); err != nil || got != c.want {
			t.Errorf("%q: %+v, %v", c.environ, got, err)
		}
	}
}

func TestCommandFaults(t *testing.T) {
	t.Parallel()
	for entry, want := range map[string]string{
		"CHRONOS_ADMIN_URL=node-1:7254":         "such as http://127.0.0.1:7254",
		"CHRONOS_ADMIN_URL=http://":             "such as http://127.0.0.1:7254",
		"CHRONOS_URL=node-1:7253":               "such as http://127.0.0.1:7253",
		"CHRONOS_ADMIN_URL=http://n:7254?a=b":   "such as http://127.0.0.1:7254",
		"CHRONOS_ADMIN_URL=http://a:hush@n:254": "set CHRONOS_TOKEN",
		"CHRONOS_CLIENT_CERT_FILE=/tls.crt":     "CHRONOS_CLIENT_KEY_FILE go together",
		"CHRONOS_ADMIN_URI=http://n:7254":       "CHRONOS_ADMIN_URI: no such variable; did you mean CHRONOS_ADMIN_URL?",
	} {
		_, err := LoadCommand([]string{entry})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v, want %q", entry, err, want)
		}
	}
}

// A user may start a node in a shell that has variables for commands.
func TestNodesAndBridgesKnowTheVariablesOfCommands(t *testing.T) {
	t.Parallel()
	of := []string{"CHRONOS_URL=http://node-1:7253", "CHRONOS_ADMIN_URL=http://node-1:7254", "CHRONOS_TOKEN=t"}
	if _, err := LoadNode(of); err != nil {
		t.Error(err)
	}
	if _, err := LoadBridge(leastBridge(of...)); err != nil {
		t.Error(err)
	}
}
