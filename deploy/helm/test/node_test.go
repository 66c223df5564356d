package chart_test

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"

	"chronos/scheduler/verify/testkit"
	"chronos/scheduler/webhook/webhooktest"
)

// TestANodeRunsAsTheChartSays starts a node with the environment and the files of a rendered pod. Kubernetes' probes find the
// node well, a timer fires, Prometheus reads the metrics, the admin listener knows the names of its Service, and the
// node stops within the grace period.
func TestANodeRunsAsTheChartSays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		values string
		flags  []string
	}{
		"least":                 {least, nil},
		"everything":            {everything, nil},
		"no client certificate": {everything, []string{"--set", "tls.clientAuthorities="}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := render(t, c.values, c.flags...)
			d, container := o.deployment(t)
			n := startNode(t, o)
			for what, probe := range map[string]*core.Probe{"startup": container.StartupProbe, "liveness": container.LivenessProbe, "readiness": container.ReadinessProbe} {
				testkit.Eventually(t, 10*time.Second, what+" probe", func() bool { return n.probe(t, probe) })
			}
			n.fireTimer(t)
			n.scrape(t, o)
			n.askUnderNames(t, o)
			n.operate(t)
			if err := n.Stop(time.Duration(*d.Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second); err != nil {
				t.Errorf("the node stops with %v", err)
			}
		})
	}
}

// TestLivenessAndReadinessAreTold: the probes ask different questions.
func TestLivenessAndReadinessAreTold(t *testing.T) {
	t.Parallel()
	_, c := render(t, least).deployment(t)
	if got := []string{c.StartupProbe.HTTPGet.Path, c.LivenessProbe.HTTPGet.Path, c.ReadinessProbe.HTTPGet.Path}; got[0] != "/livez" || got[1] != "/livez" || got[2] != "/readyz" {
		t.Errorf("the probes ask %v", got)
	}
}

// node is a node as a pod runs it, and what the pod's clients know.
type node struct {
	*testkit.Process
	public, admin string // URLs
	token         string // "" without a file of tokens
	files         string // the folder that stands for the root of the pod's file system
	trust         *tls.Config
	authority     *testkit.Authority
}

var upLine = regexp.MustCompile(`msg="node is up" node=\S+ timers=(\S+) admin=(\S+)\s`)

// startNode starts a node, and returns when the listeners are open. All files of the pod are in a folder of the test, and
// the listeners have free ports. Redis and receiver have certificates of a private authority if the pod has authorities.
func startNode(t *testing.T, o *objects) *node {
	t.Helper()
	d, container := o.deployment(t)
	n := &node{files: t.TempDir(), authority: testkit.NewAuthority(t)}
	n.trust = &tls.Config{RootCAs: n.authority.Pool, Certificates: []tls.Certificate{n.authority.Certificate}, MinVersion: tls.VersionTLS12}
	n.putFiles(t, o, d.Spec.Template.Spec.Volumes, container)
	redis := testkit.StartVolatileRedis
	if _, private := variables(container)["SSL_CERT_DIR"]; private {
		redis = func(t testing.TB, _ ...string) *testkit.Redis { return testkit.StartTLSRedis(t, n.authority) }
	}
	secrets := map[string]string{
		"shop-redis CHRONOS_REDIS":             "a=" + redis(t).URL,
		"shop-webhook CHRONOS_WEBHOOK_SECRETS": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
	}
	var env []string
	for name, v := range variables(container) {
		value := v.Value
		switch {
		case v.ValueFrom != nil:
			value = secrets[v.ValueFrom.SecretKeyRef.Name+" "+v.ValueFrom.SecretKeyRef.Key]
		case strings.HasSuffix(name, "_LISTEN"):
			value = ":0"
		case strings.HasPrefix(value, "/"):
			value = n.files + value
		}
		env = append(env, name+"="+value)
	}
	n.Process = testkit.Start(t, env, binary)
	testkit.Eventually(t, 20*time.Second, "the node is up", func() bool {
		select {
		case <-n.Done:
			t.Fatalf("the node ends: %v", n.Err)
		default:
		}
		found := upLine.FindStringSubmatch(n.Log.String())
		if found != nil {
			n.public, n.admin = found[1], found[2]
		}
		return found != nil
	})
	return n
}

// putFiles makes the files that Kubernetes mounts.
func (n *node) putFiles(t *testing.T, o *objects, volumes []core.Volume, container core.Container) {
	t.Helper()
	mounts := map[string]string{}
	for _, m := range container.VolumeMounts {
		mounts[m.Name] = n.files + m.MountPath
		if err := os.MkdirAll(n.files+m.MountPath, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, v := range volumes {
		dir := mounts[v.Name]
		switch {
		case v.EmptyDir != nil:
			if err := os.Chmod(dir, os.ModeSetgid|0o777); err != nil { // as Kubernetes makes the folder
				t.Fatal(err)
			}
		case v.Secret != nil && v.Secret.SecretName == "shop-tokens":
			put(t, filepath.Join(dir, "tokens"), n.makeToken(t))
		case v.Secret != nil && v.Secret.SecretName == "shop-tls":
			put(t, filepath.Join(dir, "tls.crt"), readFile(t, n.authority.CertFile))
			put(t, filepath.Join(dir, "tls.key"), readFile(t, n.authority.KeyFile))
		case v.ConfigMap != nil && (v.ConfigMap.Name == "shop-clients" || v.ConfigMap.Name == "shop-authorities"):
			put(t, filepath.Join(dir, "ca.crt"), readFile(t, n.authority.CAFile))
		case v.ConfigMap != nil && v.ConfigMap.Name == o.configMaps[0].Name:
			for name, text := range o.configMaps[0].Data {
				put(t, filepath.Join(dir, name), text)
			}
		default:
			t.Errorf("nobody makes the volume %v", v)
		}
	}
}

// makeToken makes a token of all roles, and returns the line for the file of tokens.
func (n *node) makeToken(t *testing.T) (line string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, "token", "shop", "admin")
	cmd.Env = []string{}
	var shown strings.Builder
	cmd.Stderr = &shown
	out, err := cmd.Output()
	n.token = regexp.MustCompile(`chr_\S+`).FindString(shown.String())
	if err != nil || n.token == "" {
		t.Fatalf("chronos token: %v\n%s", err, shown.String())
	}
	return string(out)
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o440); err != nil {
		t.Fatal(err)
	}
}

// probe does what the kubelet does: a GET at the address of the pod, with any certificate, or a connection.
func (n *node) probe(t *testing.T, p *core.Probe) bool {
	t.Helper()
	port := n.admin[strings.LastIndex(n.admin, ":")+1:]
	if p.TCPSocket != nil {
		if p.TCPSocket.Port.StrVal != "admin" {
			t.Fatalf("the probe asks the port %s", p.TCPSocket.Port.StrVal)
		}
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", "127.0.0.1:"+port)
		return err == nil && conn.Close() == nil
	}
	if p.HTTPGet == nil || p.HTTPGet.Port.StrVal != "admin" {
		t.Fatalf("the probe is %v", p)
	}
	kubelet := &http.Client{Timeout: time.Duration(p.TimeoutSeconds) * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // as the kubelet
	got, err := testkit.Ask(kubelet, http.MethodGet, strings.ToLower(string(p.HTTPGet.Scheme))+"://127.0.0.1:"+port+p.HTTPGet.Path, "", "Host", "10.1.2.3:7254")
	return err == nil && got.Status == http.StatusOK
}

// ask sends a request as a client that trusts the authority, and has a certificate and a token.
func (n *node) ask(t *testing.T, method, url, body string, headers ...string) testkit.Answer {
	t.Helper()
	if n.token != "" {
		headers = append(headers, "Authorization", "Bearer "+n.token)
	}
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: n.trust}}
	got, err := testkit.Ask(client, method, url, body, headers...)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// fireTimer creates a timer, and waits for the callback.
func (n *node) fireTimer(t *testing.T) {
	t.Helper()
	receiver, url := webhooktest.New, "http"
	if strings.HasPrefix(n.public, "https") {
		receiver, url = n.receiver, "https"
	}
	r := receiver(t)
	url += strings.TrimPrefix(r.URL(), "http")
	got := n.ask(t, http.MethodPost, onLoopback(n.public)+"/timers", fmt.Sprintf(`{"timing": {"interval": 0}, "callback": {"http": {"uri": %q}}}`, url+"/hello"))
	if got.Status != http.StatusOK {
		t.Fatalf("create: %d %s", got.Status, got.Body)
	}
	calls := r.WaitFor(t, 10*time.Second, webhooktest.AtLeast(1))
	if signed := calls[0].Header.Get("Webhook-Signature") != ""; signed != (n.token != "") {
		t.Errorf("the callback is signed: %v", signed)
	}
}

// receiver is a receiver with a certificate of the private authority.
func (n *node) receiver(t testing.TB) *webhooktest.Receiver {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return webhooktest.Serve(t, tls.NewListener(listener, &tls.Config{Certificates: n.trust.Certificates, MinVersion: tls.VersionTLS12}))
}

func onLoopback(url string) string {
	return url[:strings.Index(url, "://")+3] + "127.0.0.1" + url[strings.LastIndex(url, ":"):]
}

// scrape reads the metrics as the ServiceMonitor says.
func (n *node) scrape(t *testing.T, o *objects) {
	t.Helper()
	for _, m := range o.monitors {
		e := m.Spec.Endpoints[0]
		if e.Scheme == nil || !strings.HasPrefix(n.admin, string(*e.Scheme)+":") {
			t.Errorf("the monitor asks by %v, the listener is %s", e.Scheme, n.admin)
		}
		if c := e.Authorization.Credentials; c.Name != "shop-scrape" || c.Key != "token" {
			t.Errorf("the monitor takes the token from %v", c)
		}
		if got := n.ask(t, http.MethodGet, onLoopback(n.admin)+e.Path, ""); got.Status != http.StatusOK || !strings.Contains(got.Body, "\nchronos_nodes 1\n") {
			t.Errorf("%s: %d %.200s", e.Path, got.Status, got.Body)
		}
	}
}

// operate runs a command in the pod, as kubectl exec does. Without a file of tokens the command finds the node's own token.
func (n *node) operate(t *testing.T) {
	t.Helper()
	if n.token != "" {
		return
	}
	cmd := exec.CommandContext(t.Context(), binary, "dead", "list", "--admin-url", onLoopback(n.admin))
	cmd.Env = n.Cmd.Env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("chronos dead list: %v\n%s", err, out)
	}
}

// askUnderNames asks the admin listener under the names of its Service.
func (n *node) askUnderNames(t *testing.T, o *objects) {
	t.Helper()
	for _, s := range o.services {
		if !strings.HasSuffix(s.Name, "-admin") {
			continue
		}
		for _, host := range []string{s.Name, s.Name + "." + namespace, s.Name + "." + namespace + ".svc"} {
			if got := n.ask(t, http.MethodGet, onLoopback(n.admin)+"/status", "", "Host", host+":7254"); got.Status != http.StatusOK {
				t.Errorf("%s: %d %s", host, got.Status, got.Body)
			}
		}
	}
}
