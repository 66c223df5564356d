// Package certificate gives listeners TLS by files that an operator may replace while the process runs, and gives commands
// the TLS of a client.
package certificate

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"chronos/scheduler/operatorfile"
)

// Files are PEM files: a certificate with its chain, its key, and authorities of which clients need a certificate.
// Without ClientCA clients need none. The zero value stands for listeners without TLS.
type Files struct{ Cert, Key, ClientCA string }

const (
	certOf operatorfile.Kind = "certificate file"
	keyOf  operatorfile.Kind = "key file"
	caOf   operatorfile.Kind = "file of authorities of clients"
)

// Keeper keeps the configuration of TLS up to date. The methods are safe for concurrent use. A nil Keeper stands for
// listeners without TLS.
type Keeper struct {
	files Files
	log   *slog.Logger
	now   atomic.Pointer[tls.Config]

	seen, acted [sha256.Size]byte // of the last look, and of the look that was acted on; of Run alone
}

// Open reads the files. Without files the Keeper is nil.
func Open(files Files, log *slog.Logger) (*Keeper, error) {
	if files == (Files{}) {
		return nil, nil //nolint:nilnil // a nil Keeper is usable
	}
	k := &Keeper{files: files, log: log}
	sum, config, err := k.read()
	if err != nil {
		return nil, err
	}
	k.seen, k.acted = sum, sum
	k.now.Store(config)
	return k, nil
}

// read reads the files, and returns a sum of all that was found.
func (k *Keeper) read() (sum [sha256.Size]byte, config *tls.Config, err error) {
	cert, certErr := certOf.Read(k.files.Cert)
	key, keyErr := keyOf.Read(k.files.Key)
	var authorities operatorfile.Content
	var caErr error
	if k.files.ClientCA != "" {
		authorities, caErr = caOf.Read(k.files.ClientCA)
	}
	err = errors.Join(certErr, keyErr, caErr)
	sum = sha256.Sum256(fmt.Appendf(nil, "%d %s %d %s %s %v", len(cert.Text), cert.Text, len(key.Text), key.Text, authorities.Text, err))
	if err != nil {
		return sum, nil, err
	}
	pair, err := pairOf(cert, key)
	if err != nil {
		return sum, nil, err
	}
	config = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	if k.files.ClientCA != "" {
		config.ClientCAs, config.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		config.SessionTicketsDisabled = true // a ticket may be of a client whose authority has gone since
		if !config.ClientCAs.AppendCertsFromPEM(authorities.Text) {
			return sum, nil, errors.New("the file of authorities of clients has no certificate")
		}
	}
	return sum, config, nil
}

func readPair(certFile, keyFile string) (tls.Certificate, error) {
	cert, certErr := certOf.Read(certFile)
	key, keyErr := keyOf.Read(keyFile)
	if err := errors.Join(certErr, keyErr); err != nil {
		return tls.Certificate{}, err
	}
	return pairOf(cert, key)
}

func pairOf(cert, key operatorfile.Content) (tls.Certificate, error) {
	pair, err := tls.X509KeyPair(cert.Text, key.Text)
	if err != nil {
		return pair, errors.New("the certificate and the key don't go together, or are no PEM") // the error of tls may quote a file
	}
	return pair, nil
}

// Run takes over changed files until ctx ends. A change counts after two looks with the same result, since a certificate
// and its key are replaced one after the other. Files that don't go together are logged, and the configuration before
// stays in force.
func (k *Keeper) Run(ctx context.Context) {
	if k == nil {
		return
	}
	ticker := time.NewTicker(operatorfile.LookInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			k.look()
		}
	}
}

func (k *Keeper) look() {
	sum, config, err := k.read()
	steady := sum == k.seen
	k.seen = sum
	if !steady || sum == k.acted {
		return
	}
	k.acted = sum
	if err != nil {
		k.log.Error("the files of TLS are broken; the certificate of before stays in force", "err", err)
		return
	}
	k.now.Store(config)
	k.log.Info("the listeners use a new certificate")
}

// Wrap gives the connections of a listener TLS. Connections that are open keep their certificate.
func (k *Keeper) Wrap(l net.Listener) net.Listener {
	if k == nil {
		return l
	}
	return tls.NewListener(l, &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return k.now.Load(), nil },
	})
}

// Scheme is the scheme of the listeners' URLs.
func (k *Keeper) Scheme() string {
	if k == nil {
		return "http"
	}
	return "https"
}
