package webhook

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"unicode"
)

const (
	secretsVariable = "CHRONOS_WEBHOOK_SECRETS"
	secretPrefix    = "whsec_"
	secretHidden    = secretPrefix + "…"

	minSecret  = 24 // bytes, as in Standard Webhooks
	maxSecret  = 64
	maxSecrets = 2 // the secret in use, and the secret before or after

	secretSyntax = "give one secret, or two while one replaces the other, separated by a comma or space, " +
		"each whsec_ and the base64 of 24 to 64 random bytes"
)

// Secret signs callbacks. ParseSecrets makes secrets; the zero value signs nothing. No format or log
// shows a Secret.
type Secret struct {
	key func() []byte // fmt only shows the address of key, in any value that holds the Secret
}

// String hides the secret.
func (Secret) String() string { return secretHidden }

// Format hides the secret from every verb of fmt.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, secretHidden) }

// LogValue hides the secret from slog.
func (Secret) LogValue() slog.Value { return slog.StringValue(secretHidden) }

var (
	errSecretPrefix = errors.New("doesn't begin with " + secretPrefix)
	errSecretBase64 = errors.New("isn't base64 after " + secretPrefix)
	errSecretLength = errors.New("isn't of 24 to 64 bytes")
	errSecretTwice  = errors.New("is there twice")
)

// ParseSecrets reads CHRONOS_WEBHOOK_SECRETS: one or two secrets. A blank text has no secrets, so
// nothing is signed. The error names every fault by its position, and shows nothing of a secret.
func ParseSecrets(text string) ([]Secret, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	fields := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
	var faults []string
	if len(fields) == 0 || len(fields) > maxSecrets {
		faults = append(faults, strconv.Itoa(len(fields))+" secrets")
	}
	var secrets []Secret
	for i, field := range fields {
		key, err := parseSecret(field)
		for _, other := range secrets {
			if err == nil && bytes.Equal(other.key(), key) {
				err = errSecretTwice
			}
		}
		if err != nil {
			faults = append(faults, "secret "+strconv.Itoa(i+1)+" "+err.Error())
			continue
		}
		secrets = append(secrets, Secret{key: func() []byte { return key }})
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("read %s: %s; %s", secretsVariable, strings.Join(faults, ", "), secretSyntax)
	}
	return secrets, nil
}

// parseSecret returns no errors of base64, which tell of the input.
func parseSecret(field string) ([]byte, error) {
	encoded, ok := strings.CutPrefix(field, secretPrefix)
	if !ok {
		return nil, errSecretPrefix
	}
	key, err := base64.StdEncoding.Strict().DecodeString(encoded)
	switch {
	case err != nil:
		return nil, errSecretBase64
	case len(key) < minSecret || len(key) > maxSecret:
		return nil, errSecretLength
	}
	return key, nil
}

// signer makes the signatures of Standard Webhooks, a signature for every secret. A nil signer makes no
// signatures. Only one attempt at a time may use a signer.
type signer struct {
	macs  []hash.Hash
	sum   [sha256.Size]byte
	chunk [4 << 10]byte // of the body, which is a string: a Hash takes bytes
}

func newSigner(secrets []Secret) *signer {
	if len(secrets) == 0 {
		return nil
	}
	s := new(signer)
	for _, secret := range secrets {
		s.macs = append(s.macs, hmac.New(sha256.New, secret.key()))
	}
	return s
}

// appendHeader appends webhook-signature; id and timestamp are the values of the webhook-id and
// webhook-timestamp headers.
func (s *signer) appendHeader(b, id, timestamp []byte, body string) []byte {
	if s == nil {
		return b
	}
	for _, mac := range s.macs {
		mac.Reset()
	}
	content := append(s.chunk[:0], id...)
	content = append(content, '.')
	content = append(content, timestamp...)
	s.write(append(content, '.'))
	for rest := body; rest != ""; {
		n := copy(s.chunk[:], rest)
		rest = rest[n:]
		s.write(s.chunk[:n])
	}
	b = append(b, "\r\nwebhook-signature:"...)
	for _, mac := range s.macs {
		b = append(b, " v1,"...)
		b = base64.StdEncoding.AppendEncode(b, mac.Sum(s.sum[:0]))
	}
	return b
}

func (s *signer) write(p []byte) {
	for _, mac := range s.macs {
		_, _ = mac.Write(p) // a Hash never fails
	}
}
