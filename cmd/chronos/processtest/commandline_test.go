package processtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"chronos/scheduler/verify/testkit"
	"chronos/scheduler/webhook/webhooktest"
)

// shell gives commands as a user of a node does.
type shell struct {
	t    *testing.T
	node *nodeProcess
}

// run carries out a command and checks the exit status.
func (s *shell) run(status int, input string, args ...string) (out, errs string) {
	s.t.Helper()
	command := commandOf(s.t, s.node, args...)
	command.Env = append(command.Env, "CHRONOS_URL="+s.node.url)
	var stdout, stderr bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(input), &stdout, &stderr
	err := command.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		s.t.Fatal(err)
	}
	if got := command.ProcessState.ExitCode(); got != status {
		s.t.Errorf("chronos %s: status %d, want %d\n%s%s", strings.Join(args, " "), got, status, &stdout, &stderr)
	}
	return stdout.String(), stderr.String()
}

// TestCommandLine: a user creates, looks at, delays, fires, watches and cancels timers by commands alone.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	receiver := webhooktest.New(t)
	node := startNode(t, testkit.StartRedis(t).URL)
	s := &shell{t, node}
	to := receiver.URL() + "/hook"

	out, _ := s.run(0, "tea is ready", "timer", "create", "--in", "1h", "--to", to, "--body", "-", "--id", "tea", "--tag", "kind=2", "--header", "X-Kind: green", "--copies", "1", "--json")
	var made struct{ ID, Key, ETag string }
	if err := json.Unmarshal([]byte(out), &made); err != nil || made.Key != "tea" || made.ETag == "" {
		t.Fatalf("%s, %v", out, err)
	}
	out, _ = s.run(0, "", "timer", "get", "tea", "--copies", "--json")
	var got struct {
		State    string
		Callback struct {
			HTTP struct {
				Opaque  string
				Headers map[string]string
			}
		}
		Copies []struct{ Shard string }
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || got.State != "waiting" || got.Callback.HTTP.Opaque != "tea is ready" || got.Callback.HTTP.Headers["X-Kind"] != "green" ||
		len(got.Copies) != 1 || got.Copies[0].Shard != "main" {
		t.Errorf("%s, %v", out, err)
	}
	if out, _ := s.run(0, "", "timer", "get", "tea"); !strings.Contains(out, "calls  POST "+to) || !strings.Contains(out, "tag    kind=2") {
		t.Error(out)
	}

	whole, _ := s.run(0, "", "timer", "get", "tea", "--json")
	s.run(0, whole, "timer", "create", "-f", "-", "--id", "again")
	if again, _ := s.run(0, "", "timer", "get", "again"); !strings.Contains(again, "tea is ready") {
		t.Error(again)
	}
	s.run(0, "", "timer", "cancel", "again")

	out, _ = s.run(0, `{"timing": {"interval": 7200}, "callback": {"http": {"uri": "`+to+`"}}, "reliability": {"replication-factor": 1}}`, "timer", "create", "-f", "-", "--json")
	var other struct{ ID string }
	if err := json.Unmarshal([]byte(out), &other); err != nil || other.ID == "" {
		t.Fatalf("%s, %v", out, err)
	}
	if _, errs := s.run(2, `{"timing": {"interval": 7200}, "call": {}}`, "timer", "create", "-f", "-"); !strings.Contains(errs, `"call"`) {
		t.Error(errs)
	}
	if _, errs := s.run(1, "", "timer", "create", "--in", "1h", "--to", "ftp://h/"); !strings.Contains(errs, "http") {
		t.Error(errs)
	}

	if out, _ := s.run(0, "", "timer", "list", "--due-before", "90m"); !strings.Contains(out, "tea-") || strings.Contains(out, other.ID) {
		t.Error(out)
	}
	if out, _ := s.run(0, "", "timer", "delay", "tea", "--by", "1h"); !strings.Contains(out, "id ") {
		t.Error(out)
	}
	if out, _ := s.run(0, "", "timer", "list", "--due-before", "90m"); strings.Contains(out, "tea-") {
		t.Error(out)
	}
	if out, _ := s.run(0, "", "timer", "delete", "--prefix", "te", "--dry-run"); out != "1 timers would be deleted\n" {
		t.Error(out)
	}

	watcher := testkit.Start(t, append(commandOf(t, node).Env, "CHRONOS_URL="+node.url), binary, "timer", "watch", "tea")
	testkit.Eventually(t, 10*time.Second, "the watcher has seen the timer", func() bool { return strings.Contains(watcher.Log.String(), "waiting, pop 1") })
	s.run(0, "", "timer", "fire", "tea")
	testkit.Eventually(t, 10*time.Second, "the timer comes", func() bool { return len(receiver.Calls()) == 1 })
	testkit.Eventually(t, 10*time.Second, "the watcher ends", func() bool { return strings.Contains(watcher.Log.String(), "the timer has ended") })
	if <-watcher.Done; watcher.Err != nil {
		t.Error(watcher.Err)
	}
	s.run(4, "", "timer", "get", "tea")
	s.run(4, "", "timer", "watch", "tea")
	if out, _ := s.run(0, "", "timer", "cancel", other.ID, "nobody"); strings.Count(out, " is cancelled\n") != 2 {
		t.Error(out)
	}
	if out, _ := s.run(0, "", "timer", "list", "--all", "--json"); out != "" {
		t.Errorf("left: %s", out)
	}
	if out, _ := s.run(0, "", "healthcheck"); out != "ready\n" {
		t.Error(out)
	}
	if out, _ := s.run(0, "", "status", "--json"); !strings.Contains(out, `"alarms":[]`) {
		t.Error(out)
	}
}

// TestExportAndImport: timers move to another cluster by commands alone, and go on there with their next pops.
func TestExportAndImport(t *testing.T) {
	t.Parallel()
	receiver := webhooktest.New(t)
	from, to := &shell{t, startNode(t, testkit.StartRedis(t).URL)}, &shell{t, startNode(t, testkit.StartRedis(t).URL)}
	first := time.Now().Add(20 * time.Second).UTC().Format(time.RFC3339)
	hook := strings.Replace(receiver.URL(), "http://", "http://user:password@", 1)
	from.run(0, "", "timer", "create", "--at", first, "--every", "1s", "--for", "3s", "--to", receiver.URL()+"/often", "--id", "often", "--body", "é <&>")
	from.run(0, "", "timer", "create", "--in", "20s", "--to", hook+"/once", "--id", "once", "--header", "Authorization-Key: secret")
	from.run(0, "", "timer", "create", "--in", "1h", "--to", receiver.URL()+"/gone", "--id", "gone")

	if out, errs := from.run(1, "", "timer", "export"); strings.Count(out, "\n") != 2 || !strings.Contains(errs, "left out 1 with secrets") {
		t.Errorf("%s%s", out, errs)
	}
	lines, _ := from.run(0, "", "timer", "export", "--secrets", "--due-before", "30m")
	if again, _ := to.run(0, lines, "timer", "import"); again != "imported 2 timers, skipped 0 that exist, refused 0\n" {
		t.Error(again)
	}
	if again, _ := to.run(0, lines, "timer", "import", "--skip-existing"); again != "imported 0 timers, skipped 2 that exist, refused 0\n" {
		t.Error(again)
	}
	moved, _ := to.run(0, "", "timer", "export", "--secrets")
	if moved != lines {
		t.Errorf("imported\n%sof\n%s", moved, lines)
	}
	from.run(0, "", "timer", "delete", "--all", "--yes")
	calls := receiver.WaitFor(t, 40*time.Second, webhooktest.AtLeast(4))
	often, once := 0, 0
	for _, call := range calls {
		switch call.Target {
		case "/often":
			often++
		case "/once":
			once++
		}
	}
	if often != 3 || once != 1 {
		t.Errorf("%d calls of the recurring timer, and %d of the other, want 3 and 1: %+v", often, once, calls)
	}
}

// TestCompletion: bash completes commands by the script of chronos.
func TestCompletion(t *testing.T) {
	t.Parallel()
	script := `
_get_comp_words_by_ref() { cur=${COMP_WORDS[COMP_CWORD]}; prev=${COMP_WORDS[COMP_CWORD-1]}; words=("${COMP_WORDS[@]}"); cword=$COMP_CWORD; }
chronos() { "$BINARY" "$@"; }
source <(chronos completion bash)
complete() {
	COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}; COMP_TYPE=9; COMPREPLY=()
	__start_chronos
	printf '%s\n' "${COMPREPLY[@]}"
}
complete chronos timer ca
complete chronos timer list --due-b
complete chronos healthcheck li
`
	bash := exec.CommandContext(t.Context(), "bash", "-c", script)
	bash.Env = []string{"BINARY=" + binary, "PATH=/usr/bin:/bin"}
	out, err := bash.Output() // standard error has what bash says of compopt outside of a completion
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for i, want := range []string{"cancel", "--due-before", "live"} {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		if len(lines) != 3 || !strings.HasPrefix(lines[i], want) {
			t.Errorf("completed %q, want %q in line %d", lines, want, i+1)
		}
	}
	for _, shell := range []string{"zsh", "fish", "powershell"} {
		if out, err := exec.CommandContext(t.Context(), binary, "completion", shell).Output(); err != nil || !strings.Contains(string(out), "chronos") {
			t.Errorf("%s: %v", shell, err)
		}
	}
}
