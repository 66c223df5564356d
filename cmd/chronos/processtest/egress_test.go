package processtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"chronos/api/client"
	"chronos/api/tokens"
	"chronos/scheduler/verify/testkit"
)

// redisSawHTTP is a redis-server's log line about an HTTP request.
const redisSawHTTP = "SECURITY ATTACK"

// operated is a node that has tokens for clients and operators.
type operated struct {
	*nodeProcess
	client *client.Client
	token  string // of the operator
}

// startOperated starts a node with an admin listener at an address.
func startOperated(t *testing.T, redisURL, admin string) *operated {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tokens")
	writer, writerLine := newToken(t, "orders", tokens.Write)
	operator, operatorLine := newToken(t, "ops", tokens.Admin)
	writeFile(t, file, writerLine, operatorLine)
	node := startNode(t, redisURL, "CHRONOS_TOKENS_FILE="+file, "CHRONOS_ADMIN_LISTEN="+admin)
	return &operated{nodeProcess: node, client: clientOf(t, node, client.WithToken(writer)), token: operator}
}

// topologyAdd runs `chronos topology add`, and repeats a change that a busy machine left unfinished.
func (o *operated) topologyAdd(t *testing.T, name, url string) {
	t.Helper()
	testkit.Eventually(t, 20*time.Second, "a shard is added", func() bool {
		command := exec.CommandContext(t.Context(), binary, "topology", "add", name, url)
		command.Env = append(os.Environ(), "CHRONOS_ADMIN_URL="+o.admin, "CHRONOS_TOKEN="+o.token)
		out, err := command.CombinedOutput()
		text := string(out)
		if err != nil && !strings.Contains(text, "change unfinished") && !strings.Contains(text, "there is a shard") && !strings.Contains(text, "is being announced") {
			t.Fatalf("chronos topology add: %v\n%s", err, out)
		}
		return err == nil || strings.Contains(text, "there is a shard")
	})
}

// failureOf is the reason for the failure of the first callback to the URI.
func (o *operated) failureOf(t *testing.T, uri string) (reason string) {
	t.Helper()
	receipt, err := o.client.Create(t.Context(), client.Timer{URI: uri})
	if err != nil {
		t.Fatalf("create a timer for %s: %v", uri, err)
	}
	testkit.Eventually(t, 10*time.Second, "the callback to "+uri+" has failed", func() bool {
		stored, err := o.client.Lookup(t.Context(), receipt.ID)
		if err == nil && stored.LastFailure != nil {
			reason = stored.LastFailure.Reason
		}
		return reason != ""
	})
	return reason
}

// machineAddresses are all addresses of this machine that a callback might go to, and the name
// localhost.
func machineAddresses(t *testing.T) []string {
	t.Helper()
	hosts := []string{"localhost", "127.0.0.1", "127.0.0.2", "[::ffff:127.0.0.1]"}
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range all {
		network, ok := at.(*net.IPNet)
		switch {
		case !ok || network.IP.IsLinkLocalUnicast():
		case network.IP.To4() != nil:
			hosts = append(hosts, network.IP.String())
		default:
			hosts = append(hosts, "["+network.IP.String()+"]")
		}
	}
	return hosts
}

func portOf(t *testing.T, url string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(url, "http://"), "redis://"), "/0"))
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// TestCallbacksReachNoAdminListener: no callback connects to the node's own admin listener,
// whatever name or address of this machine the callback has.
func TestCallbacksReachNoAdminListener(t *testing.T) {
	t.Parallel()
	const want = "address not allowed: admin listener of this node"
	redis := testkit.StartRedis(t)
	for admin, hosts := range map[string][]string{"127.0.0.1:0": {"127.0.0.1", "localhost", "[::ffff:127.0.0.1]"}, ":0": machineAddresses(t)} {
		node := startOperated(t, redis.URL, admin)
		for _, host := range hosts {
			uri := "http://" + host + ":" + portOf(t, node.admin) + "/topology/shards/main/drain?force=true"
			if got := node.failureOf(t, uri); got != want {
				t.Errorf("admin listener at %s: callback to %s failed with %q, want %q", admin, uri, got, want)
			}
		}
		if reason := node.Stop(20 * time.Second); reason != nil {
			t.Error(reason)
		}
	}
}

// TestCallbacksReachNoRedis: no callback connects to a Redis of the topology, by address or by
// name. The Redis may have been added later.
func TestCallbacksReachNoRedis(t *testing.T) {
	t.Parallel()
	const want = "address not allowed: Redis of this cluster"
	first, named, added, stranger := testkit.StartRedis(t), testkit.StartRedis(t), testkit.StartRedis(t), testkit.StartRedis(t)
	node := startOperated(t, first.URL+",named=redis://localhost:"+portOf(t, named.URL)+"/0", "127.0.0.1:0")
	refused := func(what string, redis *testkit.Redis) {
		t.Helper()
		for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]"} {
			if got := node.failureOf(t, "http://"+host+":"+portOf(t, redis.URL)+"/"); got != want {
				t.Errorf("%s: callback to %s failed with %q, want %q", what, host, got, want)
			}
		}
		if strings.Contains(redis.Log.String(), redisSawHTTP) {
			t.Errorf("%s: a callback reached the redis-server:\n%s", what, redis.Log)
		}
	}
	refused("a Redis of the start", first)
	refused("a Redis that is given by its name", named)
	node.topologyAdd(t, "added", added.URL)
	refused("a Redis that was added later", added)

	// A Redis that the node doesn't know shows how a redis-server logs a callback.
	if got := node.failureOf(t, "http://127.0.0.1:"+portOf(t, stranger.URL)+"/"); got == want {
		t.Errorf("a callback to another Redis failed with %q", got)
	}
	testkit.Eventually(t, 5*time.Second, "another redis-server logs the request", func() bool {
		return strings.Contains(stranger.Log.String(), redisSawHTTP)
	})
}

// secureReceiver is a receiver with a self-signed certificate.
type secureReceiver struct {
	url, certificate string // the certificate in PEM
	called           chan struct{}
}

func newSecureReceiver(t *testing.T) *secureReceiver {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: t.Name()}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	r := &secureReceiver{called: make(chan struct{}, 1)}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		select {
		case r.called <- struct{}{}:
		default:
		}
	}))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{signed}, PrivateKey: key}}, MinVersion: tls.VersionTLS13}
	server.StartTLS()
	t.Cleanup(server.Close)
	r.url = server.URL
	r.certificate = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}))
	return r
}

// TestCallbacksTrustTheOperatorsAuthorities: a receiver's certificate may come from an authority
// that the operator names, or from an authority that the system trusts.
func TestCallbacksTrustTheOperatorsAuthorities(t *testing.T) {
	t.Parallel()
	ours, systems, strangers := newSecureReceiver(t), newSecureReceiver(t), newSecureReceiver(t)
	dir := t.TempDir()
	file, system := filepath.Join(dir, "ours.pem"), filepath.Join(dir, "system.pem")
	writeFile(t, file, "# authorities of ours\n", ours.certificate)
	writeFile(t, system, systems.certificate)
	node := startNode(t, testkit.StartRedis(t).URL, "CHRONOS_CALLBACK_CA_FILE="+file, "SSL_CERT_FILE="+system, "SSL_CERT_DIR="+dir+"/none")
	plain := &operated{nodeProcess: node, client: clientOf(t, node)}
	for what, receiver := range map[string]*secureReceiver{"the operator's": ours, "the system's": systems} {
		if _, err := plain.client.Create(t.Context(), client.Timer{URI: receiver.url}); err != nil {
			t.Fatal(err)
		}
		select {
		case <-receiver.called:
		case <-time.After(10 * time.Second):
			t.Errorf("%s: no callback has come", what)
		}
	}
	if got := plain.failureOf(t, strangers.url); got != "certificate not accepted" {
		t.Errorf("a stranger's: the callback failed with %q", got)
	}

	broken := filepath.Join(dir, "broken.pem")
	for what, text := range map[string]string{
		"empty": "", "no PEM": "hello\n", "not a certificate": "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n",
		"cut short": ours.certificate + systems.certificate[:len(systems.certificate)/2],
	} {
		writeFile(t, broken, text)
		p := testkit.Start(t, nodeEnv(t, "redis://127.0.0.1:1", "CHRONOS_CALLBACK_CA_FILE="+broken), binary)
		select {
		case <-p.Done:
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: the node has started", what)
		}
		if said := p.Log.String(); p.Err == nil || !strings.Contains(said, "CHRONOS_CALLBACK_CA_FILE") || !strings.Contains(said, broken) {
			t.Errorf("%s: %v, said:\n%s", what, p.Err, said)
		}
	}
}
