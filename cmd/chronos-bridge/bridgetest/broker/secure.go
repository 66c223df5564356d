package broker

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
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"chronos/scheduler/verify/freeport"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Secure is a listener that speaks TLS, and lets a single user in: by PLAIN, SCRAM-SHA-256 or
// SCRAM-SHA-512.
type Secure struct {
	Addr   string // host and port; the certificate is for this host alone
	CAFile string // the certificate's authority, in PEM

	user, password   string
	certificate, key string // PEM
}

// newSecure makes a listener's certificate in dir. The certificate is its own authority.
func newSecure(dir, user, password string) (*Secure, error) {
	port, err := freeport.Pick()
	if err != nil {
		return nil, err
	}
	s := &Secure{
		Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), CAFile: filepath.Join(dir, "ca.pem"),
		user: user, password: password,
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "broker"}, // Java wants a name
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key) // the only form that Kafka takes
	if err != nil {
		return nil, fmt.Errorf("encode a key: %w", err)
	}
	s.certificate = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}))
	s.key = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	if err := os.WriteFile(s.CAFile, []byte(s.certificate), 0o644); err != nil {
		return nil, fmt.Errorf("write a certificate: %w", err)
	}
	return s, nil
}

// properties are the settings of the listener.
func (s *Secure) properties() string {
	const security = "org.apache.kafka.common.security."
	var b strings.Builder
	for _, p := range [][2]string{
		{"sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"},
		{"plain.sasl.jaas.config", security + "plain.PlainLoginModule required " + strconv.Quote("user_"+s.user) + "=" + strconv.Quote(s.password) + ";"},
		{"scram-sha-256.sasl.jaas.config", security + "scram.ScramLoginModule required;"},
		{"scram-sha-512.sasl.jaas.config", security + "scram.ScramLoginModule required;"},
		{"ssl.keystore.type", "PEM"},
		{"ssl.keystore.certificate.chain", s.certificate},
		{"ssl.keystore.key", s.key},
	} {
		b.WriteString("listener.name.secure." + p[0] + "=" + escaped(p[1]) + "\n")
	}
	return b.String()
}

// escaped is a value in the form of Java properties: in Latin-1, on a line.
func escaped(value string) string {
	ascii := strconv.QuoteToASCII(value)
	return strings.ReplaceAll(ascii[1:len(ascii)-1], `\"`, `"`)
}

// admit lets the user log in by SCRAM. The server stores the credentials of SCRAM itself.
func (s *Server) admit(ctx context.Context) error {
	client, err := s.client()
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	bounded, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for _, mechanism := range []kadm.ScramMechanism{kadm.ScramSha256, kadm.ScramSha512} { // only one in a request
		credential := kadm.UpsertSCRAM{User: s.secure.user, Password: s.secure.password, Mechanism: mechanism, Iterations: 4096}
		altered, err := admin.AlterUserSCRAMs(bounded, nil, []kadm.UpsertSCRAM{credential})
		if err := errors.Join(err, altered.Error()); err != nil {
			return fmt.Errorf("admit user %s: %w", s.secure.user, err)
		}
	}
	return s.await(ctx, "the user can log in", s.secure.login)
}

// login logs in by SCRAM-SHA-512, the mechanism that admit sets up last.
func (s *Secure) login(ctx context.Context) error {
	known := x509.NewCertPool()
	known.AppendCertsFromPEM([]byte(s.certificate))
	client, err := kgo.NewClient(
		kgo.SeedBrokers(s.Addr), kgo.DialTLSConfig(&tls.Config{RootCAs: known, MinVersion: tls.VersionTLS13}),
		kgo.SASL(scram.Auth{User: s.user, Pass: s.password}.AsSha512Mechanism()),
	)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	defer client.Close()
	return client.Ping(ctx)
}
