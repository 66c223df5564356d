package processtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"chronos/api/wire"
	"chronos/scheduler/verify/testkit"
	"chronos/scheduler/webhook/webhooktest"
)

// dead runs `chronos dead` against a node.
func dead(t *testing.T, node *nodeProcess, args ...string) string {
	t.Helper()
	out, err := commandOf(t, node, append([]string{"dead"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("chronos dead %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// commandOf is a command that the user of a node gives in a different directory.
func commandOf(t *testing.T, node *nodeProcess, args ...string) *exec.Cmd {
	t.Helper()
	command := exec.CommandContext(t.Context(), binary, args...)
	command.Dir, command.Env = t.TempDir(), []string{"CHRONOS_ADMIN_URL=" + node.admin}
	for _, entry := range node.Cmd.Env {
		if strings.HasPrefix(entry, "XDG_RUNTIME_DIR=") {
			command.Env = append(command.Env, entry)
		}
	}
	return command
}

// deadPage is a page for a token that may see all dead letters.
type deadPage struct {
	Letters []wire.LetterView
	Total   int64
}

func listed(t *testing.T, node *nodeProcess, args ...string) (page deadPage) {
	t.Helper()
	if err := json.Unmarshal([]byte(dead(t, node, append([]string{"list", "--json"}, args...)...)), &page); err != nil {
		t.Fatal(err)
	}
	return page
}

// TestDeadLetters: timers with failing callbacks are given up, and become dead letters that
// commands list and show. Once the receiver is back, fired dead letters arrive, and are
// gone from the list. An old dead letter goes by itself.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	receiver := webhooktest.New(t)
	receiver.Respond(func(webhooktest.Call) webhooktest.Answer { return webhooktest.Answer{Status: http.StatusTeapot} })
	redis := testkit.StartRedis(t)
	node := startNode(t, redis.URL, "CHRONOS_ATTEMPTS=2")
	asker := newAPI(t)
	const timers = 12
	keys := map[string]bool{}
	for i := range timers {
		keys[asker.create(t, node, 0, receiver.URL()+"/hook", fmt.Sprint("opaque ", i)).id.Key] = true
	}
	testkit.Eventually(t, 20*time.Second, "all are given up", func() bool { return len(listed(t, node).Letters) == timers })
	failed := receiver.Calls()
	receiver.Respond(nil)

	page := listed(t, node, "--reason", "418", "--callback", strings.TrimPrefix(receiver.URL(), "http://"))
	if len(page.Letters) != timers || page.Total != timers {
		t.Fatalf("picked: %+v", page)
	}
	first := page.Letters[0]
	if !keys[first.Key] || first.Attempts != 2 || first.Sequence != 1 || first.Callback != receiver.URL()+"/hook" {
		t.Errorf("%+v", first)
	}
	if shown := dead(t, node, "show", first.ID); !strings.Contains(shown, `"opaque": "opaque `) || !strings.Contains(shown, first.Key) {
		t.Errorf("shown:\n%s", shown)
	}
	if table := dead(t, node); !strings.Contains(table, first.ID) || !strings.Contains(table, "12 of 12 dead letters") {
		t.Errorf("listed:\n%s", table)
	}
	if said := dead(t, node, "delete", page.Letters[1].ID); said != "deleted\n" {
		t.Error(said)
	}
	if said := dead(t, node, "fire", first.ID); !strings.Contains(said, first.Key) {
		t.Error(said)
	}
	if said := dead(t, node, "fire", "--reason", "418"); said != "fired 10, refused 0; 0 dead letters are left\n" {
		t.Error(said)
	}
	calls := receiver.WaitFor(t, 10*time.Second, webhooktest.AtLeast(len(failed)+timers-1))[len(failed):]
	ids := map[string]bool{}
	for _, c := range failed {
		ids[c.WebhookID] = true
	}
	for _, c := range calls {
		if !keys[c.Key()] || c.Seq != 1 || c.Attempt != 1 || ids[c.WebhookID] || !strings.HasPrefix(c.Body, "opaque ") {
			t.Errorf("fired again: %v %q", c, c.Body)
		}
		delete(keys, c.Key())
	}
	if len(keys) != 1 || !keys[page.Letters[1].Key] {
		t.Errorf("not fired are %v, want the deleted one, %s", keys, page.Letters[1].Key)
	}
	if left := listed(t, node); len(left.Letters) != 0 || left.Total != 0 {
		t.Errorf("left: %+v", left)
	}

	receiver.Respond(func(webhooktest.Call) webhooktest.Answer { return webhooktest.Answer{Status: http.StatusTeapot} })
	asker.create(t, node, 0, receiver.URL(), "")
	testkit.Eventually(t, 20*time.Second, "one more is given up", func() bool { return listed(t, node).Total == 1 })
	startNode(t, redis.URL, "CHRONOS_DEAD_RETENTION=1s")
	testkit.Eventually(t, 20*time.Second, "it is too old", func() bool { return listed(t, node).Total == 0 })
}
