package processtest

import (
	"crypto/tls"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"chronos/scheduler/verify/testkit"
	"chronos/scheduler/webhook/webhooktest"
)

// TestTLS: both listeners speak TLS 1.2 or later alone. A new certificate counts within seconds, and broken files change
// nothing.
func TestTLS(t *testing.T) {
	t.Parallel()
	first, second := testkit.NewAuthority(t), testkit.NewAuthority(t)
	node := startTLSNode(t, testkit.StartRedis(t).URL, "CHRONOS_TLS_CERT_FILE="+first.CertFile, "CHRONOS_TLS_KEY_FILE="+first.KeyFile)
	receiver := webhooktest.New(t)

	ask := func(config *tls.Config, url, body string) (int, error) {
		client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
		answer, err := client.Post(url, "application/json", strings.NewReader(body)) //nolint:noctx // bounded by the client
		if err != nil {
			return 0, err
		}
		defer answer.Body.Close() //nolint:errcheck // was read
		_, err = io.Copy(io.Discard, answer.Body)
		return answer.StatusCode, err
	}
	trusts := func(a *testkit.Authority) *tls.Config {
		return &tls.Config{RootCAs: a.Pool, MinVersion: tls.VersionTLS12}
	}
	if status, err := ask(trusts(first), node.url+"/timers", timerBody(0, receiver.URL(), "")); err != nil || status != http.StatusOK {
		t.Errorf("status %d, %v", status, err)
	}
	receiver.WaitFor(t, 10*time.Second, webhooktest.AtLeast(1))
	if status, err := ask(trusts(first), node.admin+"/dead/none/fire", ""); err != nil || status != http.StatusUnauthorized {
		t.Errorf("admin listener: status %d, %v", status, err)
	}
	if _, err := ask(trusts(second), node.url+"/timers", ""); err == nil {
		t.Error("a client that trusts another authority was served")
	}
	if status, err := ask(nil, strings.Replace(node.url, "https:", "http:", 1)+"/timers", "{}"); err == nil && status == http.StatusOK {
		t.Error("a client without TLS was served")
	}
	old := trusts(first)
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	if _, err := ask(old, node.url+"/timers", "{}"); err == nil {
		t.Error("a client of TLS 1.1 was served")
	}

	replace := func(to, from string) {
		raw, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	replace(first.CertFile, second.CertFile) // without the key
	testkit.Eventually(t, 10*time.Second, "the node says that the files are broken", func() bool { return strings.Contains(node.Log.String(), "files of TLS are broken") })
	if status, err := ask(trusts(first), node.url+"/timers", "{}"); err != nil || status != http.StatusBadRequest {
		t.Errorf("with broken files: status %d, %v", status, err)
	}
	replace(first.KeyFile, second.KeyFile)
	testkit.Eventually(t, 10*time.Second, "the node uses the new certificate", func() bool {
		status, err := ask(trusts(second), node.url+"/timers", "{}")
		return err == nil && status == http.StatusBadRequest
	})
}

// startTLSNode starts a node, and returns when the node is up.
func startTLSNode(t *testing.T, redisURL string, env ...string) *nodeProcess {
	t.Helper()
	n := &nodeProcess{Process: testkit.Start(t, nodeEnv(t, redisURL, env...), binary)}
	testkit.Eventually(t, 20*time.Second, "node is up", func() bool {
		found := upLine.FindStringSubmatch(n.Log.String())
		if found == nil {
			return false
		}
		n.id, n.url, n.admin = found[1], found[2], found[3]
		return true
	})
	if !strings.HasPrefix(n.url, "https://") || !strings.HasPrefix(n.admin, "https://") {
		t.Fatalf("the listeners are at %s and %s", n.url, n.admin)
	}
	return n
}

// TestTLSOfClients: with authorities of clients, only a client with a certificate is served.
func TestTLSOfClients(t *testing.T) {
	t.Parallel()
	authority, clients := testkit.NewAuthority(t), testkit.NewAuthority(t)
	node := startTLSNode(t, testkit.StartRedis(t).URL, "CHRONOS_TLS_CERT_FILE="+authority.CertFile, "CHRONOS_TLS_KEY_FILE="+authority.KeyFile, "CHRONOS_TLS_CLIENT_CA_FILE="+clients.CAFile)
	get := func(pairs ...tls.Certificate) error {
		config := &tls.Config{RootCAs: authority.Pool, Certificates: pairs, MinVersion: tls.VersionTLS12}
		client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
		answer, err := client.Get(node.url + "/ping") //nolint:noctx // bounded by the client
		if err == nil {
			err = answer.Body.Close()
		}
		return err
	}
	if err := get(clients.Certificate); err != nil {
		t.Error(err)
	}
	if err := get(); err == nil {
		t.Error("a client without a certificate was served")
	}
	if err := get(authority.Certificate); err == nil {
		t.Error("a client with a certificate of another authority was served")
	}

	const done, misused, unreachable = 0, 2, 3
	admin := strings.TrimPrefix(node.admin, "https://")
	pair := []string{"CHRONOS_CLIENT_CERT_FILE=" + clients.CertFile, "CHRONOS_CLIENT_KEY_FILE=" + clients.KeyFile}
	asking := []string{"CHRONOS_ADMIN_URL=" + node.admin, "CHRONOS_URL=" + node.url, "SSL_CERT_FILE=" + authority.CAFile}
	inImage := []string{"CHRONOS_ADMIN_LISTEN=" + admin, "CHRONOS_TLS_CERT_FILE=" + authority.CertFile}
	stranger := []string{"CHRONOS_ADMIN_LISTEN=" + admin, "CHRONOS_TLS_CERT_FILE=" + clients.CertFile}
	for name, c := range map[string]struct {
		env    []string
		args   string
		status int
	}{
		"admin listener":                   {slices.Concat(asking, pair), "status", done},
		"public listener":                  {slices.Concat(asking, pair), "timer create --in 1h --to http://127.0.0.1:9/", done},
		"without a certificate":            {asking, "status", unreachable},
		"a certificate without its key":    {slices.Concat(asking, pair[:1]), "status", misused},
		"of an authority nobody trusts":    {slices.Concat(asking[:2], pair), "status", unreachable},
		"health in the node's environment": {slices.Concat(inImage, pair), "healthcheck", done},
		"health of another process":        {slices.Concat(stranger, pair), "healthcheck", unreachable},
	} {
		command := exec.CommandContext(t.Context(), binary, strings.Fields(c.args)...)
		command.Env = slices.Concat(c.env, []string{"PATH=" + os.Getenv("PATH")})
		out, err := command.CombinedOutput()
		if status := command.ProcessState.ExitCode(); status != c.status {
			t.Errorf("%s: exit status %d, want %d: %v: %s", name, status, c.status, err, out)
		}
	}
}
