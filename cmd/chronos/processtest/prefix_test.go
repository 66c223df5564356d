package processtest

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"chronos/api/client"
	"chronos/api/tokens"
	"chronos/scheduler/verify/testkit"
	"chronos/scheduler/webhook/webhooktest"
)

// TestATokenWithAPrefixSeesItsTimersAlone: from the create over the callback to the dead letter, and until the prefix
// changes in the file.
func TestATokenWithAPrefixSeesItsTimersAlone(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens")
	outer, outerLine := newTokenWithin(t, "outer", tokens.Write, "a.")
	inner, innerLine := newTokenWithin(t, "inner", tokens.Write, "a.b.")
	all, allLine := newToken(t, "all", tokens.Write)
	writeFile(t, file, outerLine, innerLine, allLine)
	node := startNode(t, testkit.StartRedis(t).URL, "CHRONOS_TOKENS_FILE="+file, "CHRONOS_ATTEMPTS=1")
	of := map[string]*client.Client{"a.": clientOf(t, node, client.WithToken(outer)), "a.b.": clientOf(t, node, client.WithToken(inner)), "": clientOf(t, node, client.WithToken(all))}
	receiver := webhooktest.New(t)
	receiver.Respond(func(c webhooktest.Call) webhooktest.Answer {
		if c.Body == "fails" {
			return webhooktest.Answer{Status: http.StatusTeapot}
		}
		return webhooktest.Answer{}
	})

	made := map[string]string{}
	for prefix, c := range of {
		receipt, err := c.Create(t.Context(), client.Timer{Interval: 300 * time.Millisecond, RepeatFor: time.Hour, URI: receiver.URL(), Opaque: "of " + prefix})
		if err != nil || !strings.HasPrefix(receipt.Key, prefix) || strings.HasPrefix(receipt.Key, "a.") != (prefix != "") {
			t.Fatalf("prefix %q: %+v, %v", prefix, receipt, err)
		}
		made[prefix] = receipt.ID
		if _, err := c.Create(t.Context(), client.Timer{URI: receiver.URL(), Opaque: "fails"}); err != nil {
			t.Fatal(err)
		}
	}
	called := map[string]string{}
	testkit.Eventually(t, 20*time.Second, "every timer calls back", func() bool {
		for _, call := range receiver.Calls() {
			if of, is := strings.CutPrefix(call.Body, "of "); is {
				called[of] = call.ID.Key
			}
		}
		return len(called) == len(made)
	})
	for prefix, id := range made {
		if !strings.HasPrefix(id, called[prefix]+"-2-") {
			t.Errorf("prefix %q: %s called back as %s", prefix, id, called[prefix])
		}
		for reader, c := range of {
			want := ""
			if !strings.HasPrefix(id, reader) {
				want = "id-prefix"
			}
			found, err := c.Lookup(t.Context(), id)
			if got := refusedWith(t, err); got != want || err == nil && found.Timer.Opaque != "of "+prefix {
				t.Errorf("%s read with the prefix %q: %+v, refused with %q, want %q", id, reader, found, got, want)
			}
		}
	}
	wantLetters(t, node, map[string]int{outer: 2, inner: 1})

	writeFile(t, file, strings.Replace(outerLine, "prefix=a.", "prefix=c.", 1), innerLine, allLine)
	testkit.Eventually(t, 10*time.Second, "the new prefix counts", func() bool {
		_, err := of["a."].Delete(t.Context(), made["a."])
		return refusedWith(t, err) == "id-prefix"
	})
	if receipt, err := of["a."].Create(t.Context(), client.Timer{Interval: time.Hour, URI: receiver.URL()}); err != nil || !strings.HasPrefix(receipt.Key, "c.") {
		t.Errorf("after the change: %+v, %v", receipt, err)
	}
}

// wantLetters waits until a command with each token lists as many dead letters, and no more than the token may see.
func wantLetters(t *testing.T, node *nodeProcess, byToken map[string]int) {
	t.Helper()
	for token, want := range byToken {
		testkit.Eventually(t, 20*time.Second, "the dead letters of a token", func() bool {
			command := commandOf(t, node, "dead")
			command.Env = append(command.Env, "CHRONOS_TOKEN="+token)
			out, err := command.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			return strings.HasSuffix(string(out), fmt.Sprintf("\n\n%d dead letters\n", want)) && strings.Count(string(out), "\na.") == 0 && strings.Count(string(out), "  a.") == want
		})
	}
}
