package testkit

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// StartReplica starts a redis-server that follows another, and returns when the replica has the data.
func StartReplica(t testing.TB, of *Redis, args ...string) *Redis {
	t.Helper()
	r := StartRedis(t, append([]string{"--replicaof", "127.0.0.1", of.Port, "--repl-diskless-sync-delay", "0"}, args...)...)
	Eventually(t, Soon, "the replica follows", func() bool {
		info, err := r.Admin.Info(t.Context(), "replication").Result()
		return err == nil && strings.Contains(info, "master_link_status:up")
	})
	return r
}

// StartSentinels starts n processes of Redis Sentinel that watch masters, by name, each with replicas. A master that is
// silent for a second is replaced. The result is the URL of each master.
func StartSentinels(t testing.TB, n int, masters map[string]*Redis) map[string]string {
	t.Helper()
	var sentinels []*Redis
	for range n {
		dir, port := t.TempDir(), FreePort(t)
		var config strings.Builder
		fmt.Fprintf(&config, "port %s\nbind 127.0.0.1\ndir %s\nloglevel warning\n", port, dir)
		for name, master := range masters {
			fmt.Fprintf(&config, "sentinel monitor %[1]s 127.0.0.1 %[2]s %[3]d\nsentinel down-after-milliseconds %[1]s 1000\nsentinel failover-timeout %[1]s 4000\n",
				name, master.Port, n/2+1)
		}
		path := filepath.Join(dir, "sentinel.conf")
		if err := os.WriteFile(path, []byte(config.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		address := net.JoinHostPort("127.0.0.1", port)
		s := (&Redis{Network: "tcp", Address: address, Port: port, Dir: dir, t: t, Args: []string{path, "--sentinel"}}).withAdmin()
		s.Start()
		sentinels = append(sentinels, s)
	}
	urls := make(map[string]string, len(masters))
	for name := range masters {
		query := url.Values{"master_name": {name}}
		for _, s := range sentinels {
			if s != sentinels[0] {
				query.Add("addr", s.Address)
			}
			Eventually(t, 30*time.Second, "the sentinels know each other and the replicas", func() bool {
				fields, err := s.Admin.Do(t.Context(), "sentinel", "master", name).StringSlice()
				said := map[string]string{}
				for i := 0; i+1 < len(fields); i += 2 {
					said[fields[i]] = fields[i+1]
				}
				return err == nil && said["num-other-sentinels"] == strconv.Itoa(n-1) && said["num-slaves"] != "0"
			})
		}
		urls[name] = "redis+sentinel://" + sentinels[0].Address + "/0?" + query.Encode()
	}
	return urls
}

// Slots are how many parts a Redis Cluster has.
const slots = 16384

// StartCluster starts a Redis Cluster of masters with a replica each. The result is the cluster's URL and the masters.
func StartCluster(t testing.TB, masters int) (string, []*Redis) {
	t.Helper()
	node := func() *Redis {
		return StartRedis(t, "--cluster-enabled", "yes", "--cluster-port", FreePort(t), "--cluster-node-timeout", "1000", "--cluster-require-full-coverage", "no", "--repl-diskless-sync-delay", "0")
	}
	var all []*Redis
	for range 2 * masters {
		all = append(all, node())
	}
	ids := make([]string, len(all))
	for i, r := range all {
		ids[i], _ = r.Do("cluster", "myid").(string)
		if i < masters {
			r.Do("cluster", "addslotsrange", i*slots/masters, (i+1)*slots/masters-1)
		}
		all[0].Do("cluster", "meet", "127.0.0.1", r.Port, clusterPort(r))
	}
	knows := func(r *Redis) bool {
		nodes, err := r.Admin.ClusterNodes(t.Context()).Result()
		return err == nil && strings.Count(nodes, "connected\n")+strings.Count(nodes, "connected ") >= len(all) && !strings.Contains(nodes, "handshake")
	}
	for _, r := range all {
		Eventually(t, 30*time.Second, "the nodes of the cluster know each other", func() bool { return knows(r) })
	}
	for i, r := range all[masters:] {
		r.Do("cluster", "replicate", ids[i])
	}
	for _, r := range all {
		Eventually(t, 30*time.Second, "the cluster is ready", func() bool {
			info, err := r.Admin.ClusterInfo(t.Context()).Result()
			replication, replErr := r.Admin.Info(t.Context(), "replication").Result()
			return err == nil && replErr == nil && strings.Contains(info, "cluster_state:ok") && (strings.Contains(replication, "role:master") || strings.Contains(replication, "master_link_status:up"))
		})
	}
	query := url.Values{}
	for _, r := range all[1:] {
		query.Add("addr", r.Address)
	}
	return "redis+cluster://" + all[0].Address + "?" + query.Encode(), all[:masters]
}

func clusterPort(r *Redis) string {
	for i, arg := range r.Args {
		if arg == "--cluster-port" {
			return r.Args[i+1]
		}
	}
	return ""
}

// Authority is a certificate authority of a test, and a certificate for 127.0.0.1.
type Authority struct {
	CAFile, CertFile, KeyFile string
	Pool                      *x509.CertPool
	Certificate               tls.Certificate
}

// NewAuthority makes an authority whose files are in a folder of the test.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	dir := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	write := func(name, kind string, raw []byte) string {
		path := filepath.Join(dir, name)
		must(os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}), 0o600))
		return path
	}
	template := func(serial int64, name string) *x509.Certificate {
		return &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour)}
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	ca := template(1, "authority of a test")
	ca.IsCA, ca.BasicConstraintsValid, ca.KeyUsage = true, true, x509.KeyUsageCertSign
	caRaw, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	must(err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	leaf := template(2, "127.0.0.1")
	leaf.IPAddresses, leaf.DNSNames = []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"localhost"}
	leaf.KeyUsage, leaf.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	raw, err := x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), caKey)
	must(err)
	keyRaw, err := x509.MarshalPKCS8PrivateKey(key)
	must(err)
	parsed, err := x509.ParseCertificate(caRaw)
	must(err)
	a := &Authority{
		CAFile: write("ca.pem", "CERTIFICATE", caRaw), CertFile: write("cert.pem", "CERTIFICATE", raw), KeyFile: write("key.pem", "PRIVATE KEY", keyRaw),
		Pool: x509.NewCertPool(), Certificate: tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key},
	}
	a.Pool.AddCert(parsed)
	return a
}

// StartTLSRedis starts a redis-server that speaks TLS alone.
func StartTLSRedis(t testing.TB, a *Authority) *Redis {
	t.Helper()
	r := NewRedis(t)
	r.URL = "rediss://" + r.Address + "/0"
	r.Args = append(r.Args, "--port", "0", "--tls-port", r.Port, "--tls-cert-file", a.CertFile, "--tls-key-file", a.KeyFile, "--tls-ca-cert-file", a.CAFile, "--tls-auth-clients", "no")
	_ = r.Admin.Close()
	r.tls = &tls.Config{RootCAs: a.Pool, MinVersion: tls.VersionTLS12}
	r.withAdmin().Start()
	return r
}
