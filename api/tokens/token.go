package tokens

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
)

const (
	tokenPrefix = "chr_"
	tokenBytes  = 32
	tokenLength = len(tokenPrefix) + (tokenBytes*8+5)/6
	hashPrefix  = "sha256:"
	maxName     = 32 // less than a token or a hash, so that neither passes for a name
	hidden      = "[hidden]"
)

// Token is a secret that its holder sends. However it is formatted, logged or
// marshalled, it shows [hidden]; only Reveal tells it. The zero value is no
// token: no file lets it in.
type Token struct{ text string }

// Reveal returns the token itself, for the one who asked for it to be made.
func (t Token) Reveal() string { return t.text }

// String hides the token.
func (Token) String() string { return hidden }

// Format hides the token from every verb of package fmt.
func (Token) Format(f fmt.State, _ rune) { hide(f) }

// LogValue hides the token from logs.
func (Token) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText hides the token from encoders. Its error is always nil.
func (Token) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// digest is the SHA-256 of a token's text. Formatted or logged it shows [hidden].
type digest [sha256.Size]byte

func (digest) String() string { return hidden }

func (digest) Format(f fmt.State, _ rune) { hide(f) }

func (digest) LogValue() slog.Value { return slog.StringValue(hidden) }

func (digest) MarshalText() ([]byte, error) { return []byte(hidden), nil }

func hide(f fmt.State) {
	_, _ = io.WriteString(f, hidden) // fmt.State doesn't fail
}

// Generate makes a token from 256 bits of random, which must be a
// cryptographically secure source such as crypto/rand.Reader, and the line of
// the tokens file that lets it in, without a line end. The line has no rate;
// one may be added to it. Its errors are about a name or role that a file
// can't have, and those of random, on which it blocks.
func Generate(name string, role Role, random io.Reader) (Token, string, error) {
	if !isName(name) {
		return Token{}, "", errors.New(faultName)
	}
	if !role.Allows(Read) {
		return Token{}, "", errors.New(faultRoles)
	}
	var secret [tokenBytes]byte
	if _, err := io.ReadFull(random, secret[:]); err != nil {
		return Token{}, "", fmt.Errorf("read random bits: %w", err)
	}
	token := Token{tokenPrefix + base64.RawURLEncoding.EncodeToString(secret[:])}
	sum := sha256.Sum256([]byte(token.text))
	line := name + " " + role.String() + " " + hashPrefix + hex.EncodeToString(sum[:])
	return token, line, nil
}

// isName reports whether name may stand in the tokens file. It then may be
// logged and is no token.
func isName(name string) bool {
	if name == "" || len(name) > maxName || strings.HasPrefix(name, tokenPrefix) {
		return false
	}
	for _, c := range []byte(name) {
		if !isAlphanumeric(c) && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// isToken reports whether text has the form of a token.
func isToken(text []byte) bool {
	if len(text) != tokenLength || string(text[:len(tokenPrefix)]) != tokenPrefix {
		return false
	}
	for _, c := range text[len(tokenPrefix):] {
		if !isAlphanumeric(c) && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
