package kafka

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

const testPassword = "pa,ss=wörd" // with characters that SCRAM escapes in names, but not in passwords

// startCluster returns the brokers of a cluster in this process.
func startCluster(t *testing.T, opts ...kfake.Opt) []string {
	t.Helper()
	cluster, err := kfake.NewCluster(append(opts, kfake.NumBrokers(2))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster.ListenAddrs()
}

// ping connects as c says.
func ping(t *testing.T, c Connection) error {
	t.Helper()
	opts, err := c.options()
	if err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	return client.Ping(ctx)
}

func TestSASL(t *testing.T) {
	const user = "us=er,1"
	brokers := startCluster(t, kfake.EnableSASL(),
		kfake.Superuser("PLAIN", user, testPassword), kfake.Superuser("SCRAM-SHA-256", user, testPassword), kfake.Superuser("SCRAM-SHA-512", user, testPassword))
	for _, mechanism := range []string{"plain", "scram-sha-256", "scram-sha-512"} {
		t.Run(mechanism, func(t *testing.T) {
			c := Connection{Brokers: brokers, SASL: mechanism, User: user, Password: testPassword}
			if err := ping(t, c); err != nil {
				t.Errorf("the right password: %v", err)
			}
			c.Password += "x"
			if err := ping(t, c); err == nil || strings.Contains(err.Error(), testPassword) {
				t.Errorf("a wrong password: %v", err)
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		if err := ping(t, Connection{Brokers: brokers}); err == nil {
			t.Error("connected without a password")
		}
	})
}

func TestClientID(t *testing.T) {
	for id, want := range map[string]string{"": "kgo", "bridge-1": "bridge-1"} {
		opts, err := Connection{Brokers: []string{"localhost"}, ClientID: id}.options()
		if err != nil {
			t.Fatal(err)
		}
		client, err := kgo.NewClient(opts...)
		if err != nil {
			t.Fatal(err)
		}
		if got := client.OptValue(kgo.ClientID); got != want {
			t.Errorf("client id %q makes %v, want %s", id, got, want)
		}
		client.Close()
	}
}

// authority signs certificates for a test.
type authority struct {
	*testing.T
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	file        string // its certificate
	serial      int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: t.Name()}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{T: t, certificate: certificate, key: key, serial: 1}
	a.file = a.write("CERTIFICATE", der)
	return a
}

// write writes a file in PEM.
func (a *authority) write(kind string, der []byte) string {
	a.Helper()
	file := filepath.Join(a.TempDir(), "file.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.Fatal(err)
	}
	return file
}

// issue makes a certificate for 127.0.0.1 and returns its files.
func (a *authority) issue() (certFile, keyFile string) {
	a.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.Fatal(err)
	}
	a.serial++
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(a.serial), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.certificate, key.Public(), a.key)
	if err != nil {
		a.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.Fatal(err)
	}
	return a.write("CERTIFICATE", der), a.write("PRIVATE KEY", private)
}

func (a *authority) server() *tls.Config {
	a.Helper()
	certificate, err := tls.LoadX509KeyPair(a.issue())
	if err != nil {
		a.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS10}
}

func TestTLS(t *testing.T) {
	ca := newAuthority(t)
	brokers := startCluster(t, kfake.TLS(ca.server()), kfake.EnableSASL(), kfake.Superuser("PLAIN", "user", testPassword))
	c := Connection{Brokers: brokers, TLS: true, CAFile: ca.file, SASL: "plain", User: "user", Password: testPassword}
	if err := ping(t, c); err != nil {
		t.Errorf("the authority is known: %v", err)
	}
	var unknown x509.UnknownAuthorityError
	c.CAFile = ""
	if err := ping(t, c); !errors.As(err, &unknown) {
		t.Errorf("the system's authorities: %v", err)
	}
	c.CAFile = newAuthority(t).file
	if err := ping(t, c); !errors.As(err, &unknown) {
		t.Errorf("another authority: %v", err)
	}
	c.CAFile = ca.file
	var name x509.HostnameError
	_, port, _ := net.SplitHostPort(brokers[0])
	c.Brokers = []string{"localhost:" + port}
	if err := ping(t, c); !errors.As(err, &name) {
		t.Errorf("another name than the certificate's: %v", err)
	}
	c.Brokers, c.TLS, c.CAFile = brokers, false, ""
	if err := ping(t, c); err == nil {
		t.Error("connected without TLS")
	}
}

func TestTLSVersion(t *testing.T) {
	ca := newAuthority(t)
	for version, accepted := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		server := ca.server()
		server.MaxVersion = version
		err := ping(t, Connection{Brokers: startCluster(t, kfake.TLS(server)), TLS: true, CAFile: ca.file})
		if (err == nil) != accepted {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
	}
}

func TestClientCertificate(t *testing.T) {
	ca := newAuthority(t)
	server := ca.server()
	server.ClientAuth, server.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	server.ClientCAs.AddCert(ca.certificate)
	c := Connection{Brokers: startCluster(t, kfake.TLS(server)), TLS: true, CAFile: ca.file}
	if err := ping(t, c); err == nil {
		t.Error("connected without a certificate")
	}
	c.CertFile, c.KeyFile = ca.issue()
	if err := ping(t, c); err != nil {
		t.Errorf("with a certificate: %v", err)
	}
	c.CertFile, c.KeyFile = newAuthority(t).issue()
	if err := ping(t, c); err == nil {
		t.Error("connected with another authority's certificate")
	}
}

func TestWrongConnections(t *testing.T) {
	ca := newAuthority(t)
	certFile, keyFile := ca.issue()
	_, otherKey := ca.issue()
	garbage := filepath.Join(t.TempDir(), "garbage")
	if err := os.WriteFile(garbage, []byte("no PEM, but "+testPassword), 0o600); err != nil {
		t.Fatal(err)
	}
	brokers := []string{"localhost:9092"}
	for _, c := range []struct {
		name string
		c    Connection
		want []string // the beginning of each line
	}{
		{"nothing", Connection{}, []string{"no brokers"}},
		{
			"brokers", Connection{Brokers: []string{"", "localhost", ":9092", "localhost:", "localhost:0", "localhost:65536", "localhost:http", "h:9092,i:9092"}},
			[]string{"broker 1:", "broker 3:", "broker 4:", "broker 5:", "broker 6:", "broker 7:", "broker 8:"},
		},
		{
			"broker URLs", Connection{Brokers: []string{"kafka://" + testPassword + ":9092", "kafka://h", "u:" + testPassword + "@h:9092", "h/" + testPassword}},
			[]string{"broker 1:", "broker 2:", "broker 3:", "broker 4:"},
		},
		{
			"IPv6 brokers", Connection{Brokers: []string{"::1", "[::1", "[::1]x", "[::g]:1", "[::1]:", "[::1]", "[::1]:9092", "[fe80::1%eth0]:9092"}},
			[]string{"broker 1:", "broker 2:", "broker 3:", "broker 4:", "broker 5:"},
		},
		{"files without TLS", Connection{Brokers: brokers, CAFile: ca.file, CertFile: certFile}, []string{"a CA, certificate or key file"}},
		{"no CA file there", Connection{Brokers: brokers, TLS: true, CAFile: garbage + "x"}, []string{"read CA file: open "}},
		{"no CA in the file", Connection{Brokers: brokers, TLS: true, CAFile: garbage}, []string{"read CA file: it holds"}},
		{"certificate alone", Connection{Brokers: brokers, TLS: true, CertFile: certFile}, []string{"of certificate file and key file"}},
		{"key alone", Connection{Brokers: brokers, TLS: true, KeyFile: keyFile}, []string{"of certificate file and key file"}},
		{"another's key", Connection{Brokers: brokers, TLS: true, CertFile: certFile, KeyFile: otherKey}, []string{"read certificate file and key file: "}},
		{"no key", Connection{Brokers: brokers, TLS: true, CertFile: certFile, KeyFile: garbage}, []string{"read certificate file and key file: "}},
		{"password without SASL", Connection{Brokers: brokers, Password: testPassword}, []string{"a user or password"}},
		{"user without SASL", Connection{Brokers: brokers, User: "user"}, []string{"a user or password"}},
		{
			"mechanism in other words", Connection{Brokers: brokers, SASL: testPassword, User: "user", Password: testPassword},
			[]string{"the SASL mechanism is unknown"},
		},
		{"no user", Connection{Brokers: brokers, SASL: "plain", Password: testPassword}, []string{"SASL needs a user"}},
		{"no password", Connection{Brokers: brokers, SASL: "scram-sha-512", User: "user"}, []string{"SASL needs a password"}},
		{
			"all at once", Connection{Brokers: []string{" "}, TLS: true, CAFile: garbage, CertFile: certFile, SASL: "GSSAPI"},
			[]string{"broker 1:", "read CA file:", "of certificate file and key file", "the SASL mechanism", "SASL needs a user", "SASL needs a password"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			opts, err := c.c.options()
			if err == nil || opts != nil {
				t.Fatalf("%d options, %v", len(opts), err)
			}
			lines := strings.Split(err.Error(), "\n")
			if len(lines) != len(c.want) {
				t.Fatalf("faults (-want +got):\n%s", cmp.Diff(c.want, lines))
			}
			for i, line := range lines {
				if !strings.HasPrefix(line, c.want[i]) {
					t.Errorf("fault %q, want %q", line, c.want[i])
				}
			}
			if strings.Contains(err.Error(), testPassword) {
				t.Errorf("the error holds the password: %v", err)
			}
		})
	}
}

// TestBrokers: franz-go takes all brokers that pass options.
func TestBrokers(t *testing.T) {
	for broker, want := range map[string]string{
		"localhost": "localhost", "h-1.example.:9092": "h-1.example.", "10.0.0.1": "10.0.0.1", "10.0.0.1:1": "10.0.0.1",
		"[::1]": "::1", "[::1]:65535": "::1", "[fe80::1%eth0]:9092": "fe80::1%eth0",
	} {
		if host, ok := brokerHost(broker); !ok || host != want {
			t.Errorf("host of %s is %q, %t; want %q", broker, host, ok, want)
		}
		opts, err := Connection{Brokers: []string{broker}}.options()
		if err != nil {
			t.Errorf("%s: %v", broker, err)
			continue
		}
		client, err := kgo.NewClient(opts...)
		if err != nil {
			t.Errorf("%s: %v", broker, err)
			continue
		}
		client.Close()
	}
}

func TestInsecure(t *testing.T) {
	near := []string{"localhost:9092", "LOCALHOST.", "127.0.0.1:9092", "127.1.2.3", "[::1]:9092", "[::ffff:127.0.0.1]:9092"}
	for _, c := range []struct {
		name string
		c    Connection
		want bool
	}{
		{"on this machine", Connection{Brokers: near, SASL: "plain"}, false},
		{"elsewhere", Connection{Brokers: []string{"kafka"}, SASL: "plain"}, true},
		{"an address elsewhere", Connection{Brokers: []string{"[2001:db8::1]:9092"}, SASL: "plain"}, true},
		{"one of them elsewhere", Connection{Brokers: append(near, "10.0.0.1:9092"), SASL: "plain"}, true},
		{"a name that begins alike", Connection{Brokers: []string{"localhost.example"}, SASL: "plain"}, true},
		{"with TLS", Connection{Brokers: []string{"kafka"}, SASL: "plain", TLS: true}, false},
		{"the password isn't sent", Connection{Brokers: []string{"kafka"}, SASL: "scram-sha-256"}, false},
		{"no password", Connection{Brokers: []string{"kafka"}}, false},
	} {
		if got := c.c.insecure(); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
}
