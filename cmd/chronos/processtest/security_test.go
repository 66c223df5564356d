package processtest

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"chronos/api/client"
	"chronos/api/tokens"
	"chronos/scheduler/verify/testkit"
	"chronos/scheduler/webhook/webhooktest"
)

// newToken is a token and the token's line of the file.
func newToken(t *testing.T, name string, role tokens.Role) (token, line string) {
	t.Helper()
	return newTokenWithin(t, name, role, "")
}

// newTokenWithin is newToken for a token with a prefix.
func newTokenWithin(t *testing.T, name string, role tokens.Role, prefix string) (token, line string) {
	t.Helper()
	made, line, err := tokens.Generate(name, role, prefix, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return made.Reveal(), line + "\n"
}

func writeFile(t *testing.T, path string, lines ...string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
}

// clientOf is a client that doesn't repeat requests, so that tests see refusals.
func clientOf(t *testing.T, node *nodeProcess, options ...client.Option) *client.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	checked := client.WithHTTPClient(&http.Client{Transport: described(t).Transport(t, transport)})
	c, err := client.New(node.url, append(options, client.WithTries(1), checked)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// refusedWith is the code of an answer's problem, "" for a success.
func refusedWith(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	problem, ok := errors.AsType[*client.Problem](err)
	if !ok {
		t.Fatalf("%v, want an answer", err)
	}
	return problem.Code
}

// TestTokensAreReplacedWithoutAGap: the old token works until its line is gone, and the new token
// works as soon as its line is in the file. No token gets into a log.
func TestTokensAreReplacedWithoutAGap(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens")
	old, oldLine := newToken(t, "orders", tokens.Write)
	replacement, newLine := newToken(t, "orders", tokens.Write)
	reader, readLine := newToken(t, "grafana", tokens.Read)
	writeFile(t, file, oldLine, readLine)
	node := startNode(t, testkit.StartRedis(t).URL, "CHRONOS_TOKENS_FILE="+file, "CHRONOS_LOG_LEVEL=debug")

	timer := client.Timer{Interval: time.Hour, URI: "http://127.0.0.1:9/"}
	create := func(token string) string {
		t.Helper()
		_, err := clientOf(t, node, client.WithToken(token)).Create(t.Context(), timer)
		return refusedWith(t, err)
	}
	for token, want := range map[string]string{old: "", replacement: "token-unknown", reader: "token-scope"} {
		if got := create(token); got != want {
			t.Errorf("a token of the file or not: refused with %q, want %q", got, want)
		}
	}
	if got := newAPI(t).do(http.MethodPost, node.url+"/timers", timerBody(time.Hour, "http://127.0.0.1:9/", "")); got.status != http.StatusUnauthorized {
		t.Errorf("without a token: %d, want 401", got.status)
	}
	if got := newAPI(t).do(http.MethodGet, node.admin+"/metrics", ""); got.status != http.StatusUnauthorized {
		t.Errorf("metrics without a token: %d, want 401", got.status)
	}

	writeFile(t, file, oldLine, newLine, readLine)
	testkit.Eventually(t, 10*time.Second, "the new token works", func() bool { return create(replacement) == "" })
	if got := create(old); got != "" {
		t.Errorf("the old token beside the new one: refused with %q", got)
	}
	writeFile(t, file, newLine, "orders write nonsense\n")
	testkit.Eventually(t, 10*time.Second, "the broken file is logged", func() bool { return strings.Contains(node.Log.String(), "line 2") })
	if got := create(old); got != "" {
		t.Errorf("while the file is broken: refused with %q", got)
	}
	writeFile(t, file, newLine)
	testkit.Eventually(t, 10*time.Second, "the old token is refused", func() bool { return create(old) == "token-unknown" })
	if got := create(replacement); got != "" {
		t.Errorf("the new token alone: refused with %q", got)
	}
	for _, token := range []string{old, replacement, reader} {
		if strings.Contains(node.Log.String(), token) {
			t.Error("a token is in the log")
		}
	}
}

// TestSignedAndGuardedCallbacks: every callback is signed with both secrets, and a timer with a
// forbidden destination is refused at once.
func TestSignedAndGuardedCallbacks(t *testing.T) {
	t.Parallel()
	var secrets []string
	for range 2 {
		raw := make([]byte, 32)
		_, _ = rand.Read(raw) // never fails
		secrets = append(secrets, "whsec_"+base64.StdEncoding.EncodeToString(raw))
	}
	node := startNode(t, testkit.StartRedis(t).URL, "CHRONOS_WEBHOOK_SECRETS="+strings.Join(secrets, ","),
		"CHRONOS_CALLBACK_DENY=127.0.0.3,*.denied.test", "CHRONOS_LOG_LEVEL=debug", "HTTP_PROXY=http://127.0.0.1:1", "http_proxy=http://127.0.0.1:1")
	c := clientOf(t, node)

	receiver := webhooktest.New(t)
	const body = "signed \u0000 \u2028 body"
	if _, err := c.Create(t.Context(), client.Timer{URI: receiver.URL(), Opaque: body}); err != nil {
		t.Fatal(err)
	}
	call := receiver.WaitFor(t, 5*time.Second, webhooktest.AtLeast(1))[0]
	for i, secret := range secrets {
		webhook, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			t.Fatal(err)
		}
		if err := webhook.Verify([]byte(call.Body), call.Header); err != nil || call.Body != body {
			t.Errorf("secret %d: body %q, %v", i+1, call.Body, err)
		}
	}
	for _, uri := range []string{
		"http://169.254.169.254/latest/meta-data", "http://[::ffff:169.254.169.254]/", "http://0xa9fea9fe/", "http://[fd00:ec2::254]/",
		"http://127.0.0.3:8080/", "http://a.Denied.test/",
	} {
		_, err := c.Create(t.Context(), client.Timer{URI: uri})
		if got := refusedWith(t, err); got != "uri-denied" {
			t.Errorf("%s: refused with %q, want uri-denied", uri, got)
		}
	}
	if log := node.Log.String(); slices.ContainsFunc(secrets, func(s string) bool { return strings.Contains(log, s) }) {
		t.Error("a secret is in the log")
	}
}

// TestCreateOnceOverNodes: an Idempotency-Key that a node has taken is known to all nodes.
func TestCreateOnceOverNodes(t *testing.T) {
	t.Parallel()
	redis := testkit.StartRedis(t)
	nodes := []*nodeProcess{startNode(t, redis.URL), startNode(t, redis.URL)}
	receiver := webhooktest.New(t)
	timer := client.Timer{Interval: 300 * time.Millisecond, URI: receiver.URL(), Opaque: "once"}
	clients := []*client.Client{clientOf(t, nodes[0]), clientOf(t, nodes[1])}
	receipts := make([]client.Receipt, 40)
	inParallel(len(receipts), 20, func(i int) {
		var err error
		if receipts[i], err = clients[i%2].CreateOnce(t.Context(), "8e03978e-40d5", timer); err != nil {
			t.Errorf("create once: %v", err)
		}
	})
	made := 0
	for _, r := range receipts {
		if r.ID != receipts[0].ID || !r.Due.Equal(receipts[0].Due) {
			t.Errorf("answered %+v, want %+v", r, receipts[0])
		}
		if !r.Replayed {
			made++
		}
	}
	calls := receiver.WaitFor(t, 5*time.Second, webhooktest.AtLeast(1))
	again, err := clients[1].CreateOnce(t.Context(), "8e03978e-40d5", timer)
	if err != nil || !again.Replayed || again.ID != receipts[0].ID {
		t.Errorf("after it fired: %+v, %v, want %s, replayed", again, err, receipts[0].ID)
	}
	timer.Opaque = "another"
	_, err = clients[0].CreateOnce(t.Context(), "8e03978e-40d5", timer)
	if got := refusedWith(t, err); got != "idempotency-key-reused" {
		t.Errorf("another body: refused with %q, want idempotency-key-reused", got)
	}
	if calls = quiet(t, receiver, calls); made != 1 || len(calls) != 1 {
		t.Errorf("%d made, %d callbacks, want one", made, len(calls))
	}
}

// TestFewOpenFiles: clients that hold all allowed connections leave enough files for Redis,
// callbacks and health checks.
func TestFewOpenFiles(t *testing.T) {
	t.Parallel()
	node := awaitNode(t, testkit.Start(t, nodeEnv(t, testkit.StartRedis(t).URL), "sh", "-c", "ulimit -n 1024 && exec "+binary))
	receiver := webhooktest.New(t)
	timer := client.Timer{Interval: 3 * time.Second, URI: receiver.URL()}
	if _, err := clientOf(t, node).Create(t.Context(), timer); err != nil {
		t.Fatal(err)
	}
	for i := range 1300 { // from several addresses: a single address may not have all connections
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i%8))}}
		conn, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(node.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_, _ = conn.Write([]byte("GET /timers/k HTTP/1.1\r\nHost: h\r\n")) // fails on a refused connection
	}
	for _, path := range []string{"/livez", "/readyz", "/metrics"} {
		if status, _ := raw(t, http.MethodGet, node.admin+path, ""); status != http.StatusOK {
			t.Errorf("%s: %d", path, status)
		}
	}
	if call := receiver.WaitFor(t, 10*time.Second, webhooktest.AtLeast(1))[0]; call.Late() > 1500*time.Millisecond {
		t.Errorf("%s came %v late", call, call.Late())
	}
	if !strings.Contains(node.Log.String(), "few open files are allowed") {
		t.Error("the node doesn't warn")
	}
}
