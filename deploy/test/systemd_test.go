package deploytest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"chronos/scheduler/verify/testkit"
)

// unit copies the unit of systemd under the name of an instance. ExecStart names the program of the image.
func unit(t *testing.T) (text, name string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(repository, "deploy", "systemd", "chronos@.service"))
	if err != nil {
		t.Fatal(err)
	}
	const program = "ExecStart=/usr/local/bin/chronos\n"
	if strings.Count(string(raw), program) != 1 {
		t.Fatalf("the unit lacks %q", program)
	}
	text = strings.Replace(string(raw), program, "ExecStart="+filepath.Join(images[""].root, programs, "chronos")+"\n", 1)
	name = filepath.Join(t.TempDir(), "chronos@1.service")
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return text, name
}

func analyze(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), testkit.Program(t, "systemd-analyze"), args...).CombinedOutput()
	return string(out), err
}

// TestUnitIsValid: systemd-analyze only warns of an unknown setting.
func TestUnitIsValid(t *testing.T) {
	t.Parallel()
	_, name := unit(t)
	if out, err := analyze(t, "verify", name); err != nil || out != "" {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

// TestUnitIsConfined bounds the exposure by systemd's own measure, in tenths from 0 to 100. A service without any bound has 96.
func TestUnitIsConfined(t *testing.T) {
	t.Parallel()
	_, name := unit(t)
	if out, err := analyze(t, "security", "--offline=true", "--threshold=15", "--no-pager", name); err != nil {
		t.Errorf("systemd-analyze security: %v\n%s", err, out)
	}
}

// TestUnitAllowsWhatANodeCalls runs a node through its life, and looks for calls of the system that the unit refuses.
func TestUnitAllowsWhatANodeCalls(t *testing.T) {
	t.Parallel()
	text, _ := unit(t)
	var err error
	allowed := map[string]bool{}
	for _, filter := range regexp.MustCompile(`(?m)^SystemCallFilter=(~?)(.*)$`).FindAllStringSubmatch(text, -1) {
		for name := range strings.FieldsSeq(filter[2]) {
			for _, call := range members(t, name) {
				allowed[call] = filter[1] == ""
			}
		}
	}
	if !allowed["read"] || allowed["mount"] || allowed["chown"] {
		t.Fatalf("the test reads the filter wrongly: %v", allowed)
	}
	redis := testkit.StartRedis(t)
	listen, admin := "127.0.0.1:"+testkit.FreePort(t), "127.0.0.1:"+testkit.FreePort(t)
	trace := filepath.Join(t.TempDir(), "trace")
	// With -D the child of the test is the node, and strace ends with the node.
	node := testkit.Start(t, append(os.Environ(), "CHRONOS_REDIS="+redis.URL, "CHRONOS_LISTEN="+listen, "CHRONOS_ADMIN_LISTEN="+admin, "XDG_RUNTIME_DIR="+t.TempDir()),
		testkit.Program(t, "strace"), "-D", "-f", "-qq", "-o", trace, filepath.Join(images[""].root, programs, "chronos"))
	ready := func() bool {
		answer, err := testkit.Ask(nil, "GET", "http://"+admin+"/readyz", "")
		return err == nil && answer.Status == 200
	}
	testkit.Eventually(t, 2*testkit.Soon, "the node is ready", ready)
	// The node calls itself, and gets an answer.
	body := `{"timing": {"interval": 0.2}, "callback": {"http": {"uri": "http://` + listen + `/ping"}}}`
	if answer, err := testkit.Ask(nil, "POST", "http://"+listen+"/timers", body); err != nil || answer.Status != 200 {
		t.Fatalf("create a timer: %d, %v, %s", answer.Status, err, answer.Body)
	}
	testkit.Eventually(t, testkit.Soon, "the node calls back", func() bool {
		answer, err := testkit.Ask(nil, "GET", "http://"+admin+"/metrics", "")
		return err == nil && regexp.MustCompile(`(?m)^chronos_fired_total\{.*\} [1-9]`).MatchString(answer.Body)
	})
	if err := node.Stop(2 * testkit.Soon); err != nil {
		t.Errorf("the node ends by %v", err)
	}
	var written []byte
	testkit.Eventually(t, testkit.Soon, "strace has written the end of the node", func() (ended bool) {
		written, err = os.ReadFile(trace)
		return err == nil && strings.Contains(string(written), "exit_group(0")
	})
	used := map[string]bool{}
	for _, call := range regexp.MustCompile(`(?m)^\d+ +(\w+)\(`).FindAllStringSubmatch(string(written), -1) {
		used[call[1]] = true
	}
	if !used["accept4"] || !used["connect"] || !used["epoll_pwait"] {
		t.Errorf("the test reads the trace wrongly: %v", used)
	}
	for call := range used {
		if !allowed[call] {
			t.Errorf("the unit refuses %s, which a node calls", call)
		}
	}
}

// members are the calls of a set, and of the sets within the set.
func members(t *testing.T, name string) (calls []string) {
	t.Helper()
	if !strings.HasPrefix(name, "@") {
		return []string{name}
	}
	out, err := analyze(t, "syscall-filter", "--no-pager", name)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for _, line := range lines[1:] {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "#") {
			calls = append(calls, members(t, line)...)
		}
	}
	slices.Sort(calls)
	return slices.Compact(calls)
}

// TestUnitWaitsForAStop: systemd kills no node that still waits for callbacks with the longest timeout.
func TestUnitWaitsForAStop(t *testing.T) {
	t.Parallel()
	text, _ := unit(t)
	found := regexp.MustCompile(`(?m)^TimeoutStopSec=(\d+)$`).FindStringSubmatch(text)
	if found == nil {
		t.Fatal("the unit has no TimeoutStopSec in seconds")
	}
	limit, err := time.ParseDuration(found[1] + "s")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"node-1", "node-2", "bridge"} {
		if grace := time.Duration(*compose(t).Services[name].StopGracePeriod); grace != limit {
			t.Errorf("systemd waits %v for a stop, and compose %v for %s", limit, grace, name)
		}
	}
	const longest = 30*time.Second + 12*time.Second // docs/callbacks.md
	if limit < longest {
		t.Errorf("systemd waits %v for a stop; a node may take %v", limit, longest)
	}
}
