package certificate

import (
	"bytes"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
)

// Client is the TLS of a client. The client shows the certificate in certFile with the key in keyFile; without these
// files, none. With a file own the client trusts exactly the certificate in the file, under any name: that is for a
// client on the machine of the listener. Without own the client trusts the authorities of the system.
func Client(certFile, keyFile, own string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if certFile != "" {
		pair, err := readPair(certFile, keyFile)
		if err != nil {
			return nil, fmt.Errorf("the client's certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	if own == "" {
		return config, nil
	}
	text, err := certOf.Read(own)
	if err != nil {
		return nil, err
	}
	block, rest := pem.Decode(text.Text)
	for block != nil && block.Type != "CERTIFICATE" { // a file may have the key, too
		block, rest = pem.Decode(rest)
	}
	if block == nil {
		return nil, fmt.Errorf("the certificate file %s has no certificate in PEM", own)
	}
	config.InsecureSkipVerify = true // VerifyConnection compares the whole certificate
	config.VerifyConnection = func(state tls.ConnectionState) error {
		if !bytes.Equal(state.PeerCertificates[0].Raw, block.Bytes) {
			return errors.New("the listener has another certificate than the file " + own)
		}
		return nil
	}
	return config, nil
}
