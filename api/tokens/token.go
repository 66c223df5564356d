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
	maxName     = 32 // less than a token or a hash, so no token or hash passes for a name
	// maxPrefix leaves room for what chronos appends to a prefix: an id has at most 128 characters.
	maxPrefix    = 64
	prefixOption = "prefix="
	hidden       = "[hidden]"
)

// Token is a secret that the token's holder sends. A formatted, logged or marshalled Token shows
// [hidden]; only Reveal returns the text. The zero value is no token: no file lets the zero value
// in.
type Token struct{ text string }

// Reveal returns the token's text, for the caller who had the token made.
func (t Token) Reveal() string { return t.text }

// String hides the token.
func (Token) String() string { return hidden }

// Format hides the token from every verb of package fmt.
func (Token) Format(f fmt.State, _ rune) { hide(f) }

// LogValue hides the token from logs.
func (Token) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText hides the token from encoders. The error is always nil.
func (Token) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// digest is the SHA-256 of a token's text. A formatted or logged digest shows [hidden].
type digest [sha256.Size]byte

func (digest) String() string { return hidden }

func (digest) Format(f fmt.State, _ rune) { hide(f) }

func (digest) LogValue() slog.Value { return slog.StringValue(hidden) }

func (digest) MarshalText() ([]byte, error) { return []byte(hidden), nil }

func hide(f fmt.State) {
	_, _ = io.WriteString(f, hidden) // fmt.State doesn't fail
}

// Generate makes a token from 256 bits of random, and the token's line for the tokens file, without
// a line end. The token is for timers with keys that begin with prefix, or for all timers if prefix is
// empty. random must be a cryptographically secure source such as crypto/rand.Reader, and Generate
// blocks on random. The line has no rate, but a rate may be added. An error says that a file can't
// have the name, role or prefix, or comes from random.
func Generate(name string, role Role, prefix string, random io.Reader) (Token, string, error) {
	if !isName(name) {
		return Token{}, "", errors.New(faultName)
	}
	if !role.Allows(Read) {
		return Token{}, "", errors.New(faultRoles)
	}
	if prefix != "" && !isPrefix(prefix) {
		return Token{}, "", errors.New(faultPrefix)
	}
	if prefix != "" && role == Admin {
		return Token{}, "", errors.New(faultAdmin)
	}
	var secret [tokenBytes]byte
	if _, err := io.ReadFull(random, secret[:]); err != nil {
		return Token{}, "", fmt.Errorf("read random bits: %w", err)
	}
	token := Token{tokenPrefix + base64.RawURLEncoding.EncodeToString(secret[:])}
	sum := sha256.Sum256([]byte(token.text))
	line := name + " " + role.String() + " " + hashPrefix + hex.EncodeToString(sum[:])
	if prefix != "" {
		line += " " + prefixOption + prefix
	}
	return token, line, nil
}

// isName reports whether name may stand in the tokens file. A valid name may be logged and is no
// token.
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

// isPrefix reports whether ids may begin with prefix, as package timer has ids. A valid prefix is no token.
func isPrefix(prefix string) bool {
	if prefix == "" || len(prefix) > maxPrefix || strings.HasPrefix(prefix, tokenPrefix) {
		return false
	}
	switch prefix {
	case "references", "batch", ".", "..":
		return false
	}
	for _, c := range []byte(prefix) {
		if !isAlphanumeric(c) && c != '.' && c != '_' && c != '~' && c != '-' {
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
