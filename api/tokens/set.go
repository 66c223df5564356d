package tokens

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"
)

// Challenge is the WWW-Authenticate header of an answer to a request whose token is Missing or
// Unknown.
const Challenge = `Bearer realm="chronos"`

// Outcome is the outcome of a check. The zero value is Missing, so an unset decision lets nothing
// through.
type Outcome uint8

// The outcomes.
const (
	Missing Outcome = iota // the request has no bearer token
	Unknown                // the file does not have the token, or the text is no token
	Scope                  // the token's role is too low
	Limited                // requests of the token's name come too often
	OK
)

// String is a stable code, for problems and metrics.
func (o Outcome) String() string {
	switch o {
	case Missing:
		return "token-missing"
	case Unknown:
		return "token-unknown"
	case Scope:
		return "token-scope"
	case Limited:
		return "rate-limited"
	case OK:
		return "ok"
	default:
		return "none"
	}
}

// Decision is the answer to a check. The zero value refuses.
type Decision struct {
	Outcome Outcome
	// Name is the token's name in the file, "" if Missing or Unknown. Name is safe to log: the
	// number of names is bounded by the file.
	Name string
	// RetryAfter is how long to wait if Limited, at least 1 ms; else 0.
	RetryAfter time.Duration
	// Prefix is set if OK and if the token may use only timers with keys that begin with Prefix. An empty
	// Prefix means all timers.
	Prefix string
}

// Set has the content of a tokens file. Apart from the state of the rate limits, a Set does not
// change. A Set is safe for concurrent use. A formatted or logged Set shows only the number of
// tokens. The zero value can't be used: Load and Parse make a Set.
type Set struct {
	list *list
}

type list struct {
	digests  []digest // side by side, for a fast search
	holders  []holder // the holder of the digest with the same index
	buckets  map[string]*bucket
	warnings []string
}

type holder struct {
	name   string
	role   Role
	bucket *bucket // the bucket of the name; nil for no limit
	prefix string  // "" for all ids
}

func newSet(claims []claim) *Set {
	l := &list{buckets: map[string]*bucket{}}
	for _, c := range claims {
		if l.buckets[c.name] == nil && c.rate > 0 {
			l.buckets[c.name] = newBucket(c.rate, c.burst)
		}
		l.digests = append(l.digests, c.digest)
		l.holders = append(l.holders, holder{c.name, c.role, l.buckets[c.name], c.prefix})
	}
	if !slices.ContainsFunc(l.holders, func(h holder) bool { return h.role == Admin }) {
		l.warnings = append(l.warnings, "no token has the role admin")
	}
	return &Set{l}
}

// Len returns the number of tokens.
func (s Set) Len() int { return len(s.list.digests) }

// Warnings returns warnings for the operator about a file that can be used, a line for each
// warning. The warnings contain no secrets. The caller must not change the slice.
func (s Set) Warnings() []string { return s.list.warnings }

// String tells the number of tokens.
func (s Set) String() string { return fmt.Sprintf("%d tokens", s.Len()) }

// Format writes the text of String for every verb. Without Format, package fmt would follow
// pointers if a verb doesn't suit.
func (s Set) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, s.String()) // fmt.State doesn't fail
}

// LogValue is String.
func (s Set) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Check decides whether a request with the header authorization ("" for none) may do what needs the
// role need. now is time.Now(), except in tests. If the answer is OK or Limited, Check has counted
// the request. Check keeps nothing of authorization, does not allocate, and blocks only on a short
// lock.
func (s Set) Check(authorization []byte, need Role, now time.Time) Decision {
	text, outcome := bearer(authorization)
	if outcome != OK {
		return Decision{Outcome: outcome}
	}
	i := s.list.find(sha256.Sum256(text))
	if i < 0 {
		return Decision{Outcome: Unknown}
	}
	h := s.list.holders[i]
	if !h.role.Allows(need) {
		return Decision{Outcome: Scope, Name: h.name}
	}
	if h.bucket != nil {
		if wait := h.bucket.take(now); wait > 0 {
			return Decision{Outcome: Limited, Name: h.name, RetryAfter: wait}
		}
	}
	return Decision{Outcome: OK, Name: h.name, Prefix: h.prefix}
}

// find returns the index of a digest; -1 if the digest is missing. The time depends only on the
// number of digests.
func (l *list) find(want digest) int {
	found := -1
	for i := range l.digests {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(l.digests[i][:], want[:]), i, found)
	}
	return found
}

// bearer returns the token of an Authorization header, with OK if the text has the form of a token.
func bearer(header []byte) ([]byte, Outcome) {
	const (
		scheme    = "bearer"
		maxHeader = 256
	)
	header = bytes.Trim(header, " \t")
	if len(header) <= len(scheme) || header[len(scheme)] != ' ' || !bytes.EqualFold(header[:len(scheme)], []byte(scheme)) {
		return nil, Missing
	}
	if len(header) > maxHeader {
		return nil, Unknown
	}
	text := bytes.TrimLeft(header[len(scheme):], " ")
	if !isToken(text) {
		return nil, Unknown
	}
	return text, OK
}

// inherit lets names that prev also has keep their buckets, at the rates of s. inherit must be
// called before s is used.
func (s Set) inherit(prev *Set, now time.Time) {
	for name, b := range s.list.buckets {
		if old := prev.list.buckets[name]; old != nil {
			old.resize(b.limiter.Limit(), b.limiter.Burst(), now)
			s.list.buckets[name] = old
		}
	}
	for i := range s.list.holders {
		h := &s.list.holders[i]
		h.bucket = s.list.buckets[h.name]
	}
}
