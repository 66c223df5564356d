package kafka

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// retryBackoff is how long a client waits after a number of failed attempts in a row. Messages come due
// while brokers are down, and have waited long enough when the brokers are back.
func retryBackoff(failures int) time.Duration {
	const shortest, longest = 100 * time.Millisecond, time.Second
	wait := shortest
	for ; failures > 1 && wait < longest; failures-- {
		wait *= 2
	}
	return time.Duration(float64(min(wait, longest)) * (0.8 + 0.2*rand.Float64()))
}

// requestRetries is so high that the time limit of a request, not the number of attempts, ends the
// attempts.
const requestRetries = 100

// Connection is how to reach the brokers.
type Connection struct {
	Brokers []string // host or host:port, some of the cluster; these name the rest
	TLS     bool
	// CAFile has the authorities of the brokers' certificates, in PEM; "" for the system's authorities.
	CAFile string
	// CertFile and KeyFile are a client certificate, in PEM, and its key.
	CertFile, KeyFile string
	SASL              string // "", "plain", "scram-sha-256" or "scram-sha-512"
	User, Password    string // for SASL; the password is never shown
	ClientID          string // the bridge's name in the brokers' logs and quotas; franz-go's if empty
}

const (
	saslPlain    = "plain"
	saslSCRAM256 = "scram-sha-256"
	saslSCRAM512 = "scram-sha-512"
)

// options are the options of a client with this connection. The error names every fault, without the
// password.
func (c Connection) options() ([]kgo.Opt, error) {
	var faults []error
	check := func(err error) {
		if err != nil {
			faults = append(faults, err)
		}
	}
	options := []kgo.Opt{kgo.SeedBrokers(c.Brokers...)}
	if c.ClientID != "" {
		options = append(options, kgo.ClientID(c.ClientID))
	}
	check(c.checkBrokers())
	secure, err := c.tlsConfig()
	check(err)
	if secure != nil {
		options = append(options, kgo.DialTLSConfig(secure))
	}
	mechanism, err := c.mechanism()
	check(err)
	if mechanism != nil {
		options = append(options, kgo.SASL(mechanism))
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return options, nil
}

// insecure reports whether the password goes over a network in plain text. The addresses of the
// remaining brokers of the cluster can't be known.
func (c Connection) insecure() bool {
	if c.SASL != saslPlain || c.TLS {
		return false
	}
	for _, broker := range c.Brokers {
		if host, ok := brokerHost(broker); ok && !loopback(host) {
			return true
		}
	}
	return false
}

func (c Connection) checkBrokers() error {
	if len(c.Brokers) == 0 {
		return errors.New("no brokers; give at least one as host:port")
	}
	var faults []error
	for i, broker := range c.Brokers {
		if _, ok := brokerHost(broker); !ok {
			faults = append(faults, fmt.Errorf("broker %d: want host:port or host, without a scheme, IPv6 in brackets, a port from 1 to 65535", i+1))
		}
	}
	return errors.Join(faults...)
}

// brokerHost is the host of a host or host:port. Some texts that franz-go would take are refused, since
// their meaning is a guess.
func brokerHost(broker string) (string, bool) {
	hostport := broker
	if !strings.Contains(broker, ":") || strings.HasSuffix(broker, "]") {
		hostport += ":9092"
	}
	host, port, err := net.SplitHostPort(hostport)
	n, numeric := strconv.ParseUint(port, 10, 16)
	if err != nil || numeric != nil || n == 0 || host == "" || strings.ContainsAny(host, "/@, \t\r\n") {
		return "", false
	}
	if strings.Contains(host, ":") {
		_, err = netip.ParseAddr(host)
	}
	return host, err == nil
}

func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return strings.EqualFold(strings.TrimSuffix(host, "."), "localhost")
	}
	return addr.Unmap().IsLoopback()
}

// tlsConfig is nil without TLS. franz-go adds the name of every broker.
func (c Connection) tlsConfig() (*tls.Config, error) {
	if !c.TLS {
		if c.CAFile != "" || c.CertFile != "" || c.KeyFile != "" {
			return nil, errors.New("a CA, certificate or key file is given, but TLS is off; turn it on, or give none")
		}
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	var faults []error
	if c.CAFile != "" {
		text, err := os.ReadFile(c.CAFile)
		config.RootCAs = x509.NewCertPool()
		switch {
		case err != nil:
			faults = append(faults, fmt.Errorf("read CA file: %w", err))
		case !config.RootCAs.AppendCertsFromPEM(text):
			faults = append(faults, errors.New("read CA file: it holds no certificate in PEM"))
		}
	}
	switch {
	case (c.CertFile == "") != (c.KeyFile == ""):
		faults = append(faults, errors.New("of certificate file and key file only one is given; give both or none"))
	case c.CertFile != "":
		certificate, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			faults = append(faults, fmt.Errorf("read certificate file and key file: %w", err))
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	return config, errors.Join(faults...)
}

// mechanism is nil without SASL.
func (c Connection) mechanism() (sasl.Mechanism, error) {
	if c.SASL == "" {
		if c.User != "" || c.Password != "" {
			return nil, errors.New("a user or password is given, but no SASL mechanism; give plain, scram-sha-256 or scram-sha-512")
		}
		return nil, nil
	}
	var faults []error
	var mechanism sasl.Mechanism
	switch c.SASL {
	case saslPlain:
		mechanism = plain.Auth{User: c.User, Pass: c.Password}.AsMechanism()
	case saslSCRAM256:
		mechanism = scram.Auth{User: c.User, Pass: c.Password}.AsSha256Mechanism()
	case saslSCRAM512:
		mechanism = scram.Auth{User: c.User, Pass: c.Password}.AsSha512Mechanism()
	default:
		// Not quoted: the text may be meant for the password.
		faults = append(faults, errors.New("the SASL mechanism is unknown; give plain, scram-sha-256 or scram-sha-512"))
	}
	if c.User == "" {
		faults = append(faults, errors.New("SASL needs a user"))
	}
	if c.Password == "" {
		faults = append(faults, errors.New("SASL needs a password"))
	}
	return mechanism, errors.Join(faults...)
}
