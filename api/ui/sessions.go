package ui

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"
)

// Bounds of the sessions.
const (
	maxSessions = 1000
	sessionIdle = 12 * time.Hour
	maxOnce     = 16
	onceLife    = 15 * time.Minute
)

// secret is the text of a token. A formatted or logged secret shows [hidden].
type secret struct{ text string }

func (secret) String() string { return "[hidden]" }

// Format hides the secret from every verb of package fmt.
func (secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "[hidden]") } // fmt.State doesn't fail

func (s secret) header() []byte { return []byte("Bearer " + s.text) }

// handleHash is the hash of the handle that names a session or a link. The memory has the handle's hash alone, so that the time of a search
// tells nothing about a handle.
type handleHash [sha256.Size]byte

// newHandle makes a name that nobody guesses, of 256 random bits.
func newHandle() string {
	var bits [32]byte
	_, _ = rand.Read(bits[:]) // rand.Read doesn't fail
	return base64.RawURLEncoding.EncodeToString(bits[:])
}

// session is an operator's login. The memory of this node alone has the session.
type session struct {
	token secret
	used  time.Time // guarded by sessions.mu

	mu       sync.Mutex
	runs     []*run     // changes to many, the oldest first
	outcomes []*outcome // of changes, the oldest first
}

// sessions are the logins at this node. All methods are safe for concurrent use.
type sessions struct {
	mu   sync.Mutex
	all  map[handleHash]*session
	once map[handleHash]onceLink
}

type onceLink struct {
	token secret
	ends  time.Time
}

func newSessions() *sessions {
	return &sessions{all: make(map[handleHash]*session), once: make(map[handleHash]onceLink)}
}

// begin makes a session and returns the session's handle. The session that was unused longest ends if
// there are too many.
func (s *sessions) begin(token secret, now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) >= maxSessions {
		s.dropOldest(now)
	}
	handle := newHandle()
	s.all[sha256.Sum256([]byte(handle))] = &session{token: token, used: now}
	return handle
}

func (s *sessions) dropOldest(now time.Time) {
	var oldest handleHash
	found := time.Time{}
	for hash, one := range s.all {
		if now.Sub(one.used) > sessionIdle {
			delete(s.all, hash)
			continue
		}
		if found.IsZero() || one.used.Before(found) {
			oldest, found = hash, one.used
		}
	}
	if len(s.all) >= maxSessions {
		delete(s.all, oldest)
	}
}

// find is the session of a handle, and counts as a use of the session; nil for no session.
func (s *sessions) find(handle string, now time.Time) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	hash := sha256.Sum256([]byte(handle))
	found := s.all[hash]
	if found == nil {
		return nil
	}
	if now.Sub(found.used) > sessionIdle {
		delete(s.all, hash)
		return nil
	}
	found.used = now
	return found
}

func (s *sessions) end(handle string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, sha256.Sum256([]byte(handle)))
}

// LoginLink returns the path of a link that logs in with the token, once and within 15 minutes. Whoever
// has the link has the rights of the token. If there are too many links, the oldest link ends.
func (u *UI) LoginLink(token string) string {
	return "/ui/login?once=" + u.sessions.offer(secret{token}, time.Now())
}

func (s *sessions) offer(token secret, now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var first handleHash
	ends := time.Time{}
	for hash, link := range s.once {
		if now.After(link.ends) {
			delete(s.once, hash)
		} else if ends.IsZero() || link.ends.Before(ends) {
			first, ends = hash, link.ends
		}
	}
	if len(s.once) >= maxOnce {
		delete(s.once, first)
	}
	code := newHandle()
	s.once[sha256.Sum256([]byte(code))] = onceLink{token, now.Add(onceLife)}
	return code
}

// redeem ends a link, and returns the link's token.
func (s *sessions) redeem(code string, now time.Time) (secret, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	hash := sha256.Sum256([]byte(code))
	link, found := s.once[hash]
	delete(s.once, hash)
	return link.token, found && !now.After(link.ends)
}

// cookieName is the name of the cookie at the address that the browser knows. Browsers send a cookie to
// all ports of a host, so nodes on one machine need names of their own.
func cookieName(r *http.Request) string {
	_, port, err := net.SplitHostPort(r.Host)
	if err != nil || port == "" || strings.ContainsFunc(port, func(c rune) bool { return c < '0' || c > '9' }) {
		return "chronos_ui"
	}
	return "chronos_ui_" + port
}

// cookieOf is the handle that the request's cookie has; "" for none.
func cookieOf(r *http.Request) string {
	cookie, err := r.Cookie(cookieName(r))
	if err != nil {
		return ""
	}
	return cookie.Value
}

// setCookie gives the browser a handle until the browser ends; "" for no handle.
func setCookie(w http.ResponseWriter, r *http.Request, handle string) {
	age := 0
	if handle == "" {
		age = -1
	}
	http.SetCookie(w, &http.Cookie{
		Name: cookieName(r), Value: handle, Path: "/ui", MaxAge: age, HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
	})
}

// localPath is a path of a page of the dashboard, with the query; "" for a text that leads elsewhere.
func localPath(text string) string {
	const longest = 2048
	u, err := url.Parse(text)
	if err != nil || len(text) > longest || u.Scheme != "" || u.Host != "" || u.User != nil || u.Opaque != "" || u.Fragment != "" || strings.ContainsAny(text, "\\\r\n\t") {
		return ""
	}
	if !strings.HasPrefix(u.Path, "/ui/") || path.Clean(u.Path)+"/" != u.Path && path.Clean(u.Path) != u.Path {
		return ""
	}
	if u.Path == "/ui/login" || u.Path == "/ui/logout" {
		return ""
	}
	return u.RequestURI()
}
