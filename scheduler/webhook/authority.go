package webhook

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
)

const authoritiesVariable = "CHRONOS_CALLBACK_CA_FILE"

var (
	errNoCertificate     = errors.New("it holds no certificate in PEM")
	errBrokenCertificate = errors.New("a certificate in it is cut short or malformed")
)

// LoadAuthorities reads CHRONOS_CALLBACK_CA_FILE, a PEM file, and returns the authorities of the file
// and of the system. An empty path gives nil, which stands for the system's authorities.
func LoadAuthorities(path string) (*x509.CertPool, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", authoritiesVariable, err)
	}
	pool, err := x509.SystemCertPool()
	if err == nil {
		err = addAuthorities(pool, text)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: read %s: %w", authoritiesVariable, path, err)
	}
	return pool, nil
}

// addAuthorities accepts all of the text or nothing: a left-out certificate would fail callbacks later.
func addAuthorities(pool *x509.CertPool, text []byte) error {
	begun, read := bytes.Count(text, []byte("-----BEGIN CERTIFICATE-----")), 0
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return fmt.Errorf("%w: %w", errBrokenCertificate, err)
		}
		pool.AddCert(certificate)
		read++
	}
	switch {
	case begun == 0:
		return errNoCertificate
	case read < begun:
		return errBrokenCertificate
	}
	return nil
}
