package webhook

import (
	"encoding/base64"
	"errors"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"chronos/scheduler/store"
)

const (
	schemeHTTP  = "http://"
	schemeHTTPS = "https://"
)

var (
	errURI  = errors.New("uri not usable")
	errHost = errors.New("host not in ASCII")
)

// target is where a callback goes.
type target struct {
	secure bool
	host   string // of the Host header: as in the URI
	// destination is scheme://host:port, the host in lower case.
	destination string
	resource    string // path and query as in the URI; appendResource makes it fit to send
	credentials string // of Basic authentication, in base64; "" without userinfo
}

// address is host:port to dial.
func (t *target) address() string {
	if t.secure {
		return t.destination[len(schemeHTTPS):]
	}
	return t.destination[len(schemeHTTP):]
}

// serverName is the host whose certificate is asked for.
func (t *target) serverName() string {
	name, _ := splitPort(t.address())
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	name, _, _ = strings.Cut(name, "%")
	return name
}

// place is where the callback would go, as far as the URI tells.
func (t *target) place() place {
	host, port := splitPort(t.address())
	host = strings.TrimRight(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), ".")
	p := place{name: host}
	if n, err := strconv.ParseUint(port, 10, 16); err == nil {
		p.port = uint16(n)
	}
	if addr, ok := literal(host); ok {
		p.addr = addr
	}
	return p
}

// parseTarget reads a URI that scheduler's Timer.Validate accepts. Most URIs only need cutting; the
// rest is left to net/url.
func parseTarget(uri string) (target, error) {
	secure, authority, resource, ok := splitURI(uri)
	if !ok {
		return target{}, errURI
	}
	t := target{secure: secure, resource: resource, host: authority}
	if plainAuthority(authority) {
		t.destination = plainDestination(uri, secure, authority)
	} else {
		u, err := url.Parse(uri)
		switch {
		case err != nil || u.Hostname() == "":
			return target{}, errURI
		case !ascii(u.Host):
			return target{}, errHost
		case !validHost(u.Host):
			return target{}, errURI
		}
		t.host = hostHeader(u)
		t.destination = destination(secure, u.Host)
		t.credentials = credentials(u.User)
	}
	t.host = strings.TrimSuffix(t.host, ":")
	return t, nil
}

// errDestination says what a destination looks like; the caller puts a subject before the text.
var errDestination = errors.New("is not scheme, host and port of callbacks; give http or https, such as https://api.example.com or http://10.0.0.7:8080, without user, path and query")

// ParseDestination returns the one name of the destination that the text means: as Client.Destination
// names the destination of a callback, with the host in lower case and the port filled in. The error
// is the rest of a sentence about the text, and holds nothing of the text.
func ParseDestination(text string) (string, error) {
	if len(text) > store.MaxDestination || strings.ContainsAny(text, "@?#\\") || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", errDestination
	}
	t, err := parseTarget(text)
	if err != nil || t.resource != "" && t.resource != "/" || len(t.destination) > store.MaxDestination {
		return "", errDestination
	}
	if _, port := splitPort(t.address()); !validPort(port) {
		return "", errDestination
	}
	return t.destination, nil
}

func validPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

// splitURI cuts an absolute http or https URI at the ends of its authority; the
// fragment is dropped.
func splitURI(uri string) (secure bool, authority, resource string, ok bool) {
	var rest string
	switch {
	case hasPrefixFold(uri, schemeHTTP):
		rest = uri[len(schemeHTTP):]
	case hasPrefixFold(uri, schemeHTTPS):
		secure, rest = true, uri[len(schemeHTTPS):]
	default:
		return false, "", "", false
	}
	end := 0
	for end < len(rest) && rest[end] != '/' && rest[end] != '?' && rest[end] != '#' {
		end++
	}
	resource, _, _ = strings.Cut(rest[end:], "#")
	return secure, rest[:end], resource, true
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

// plainAuthority reports whether the authority is a name or an IPv4 address in lower case, maybe with a
// port. A plain authority needs no decoding and no checks.
func plainAuthority(authority string) bool {
	name, port := splitPort(authority)
	for i := range len(name) {
		c := name[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '.' && c != '-' && c != '_' {
			return false
		}
	}
	for i := range len(port) {
		if port[i] < '0' || port[i] > '9' {
			return false
		}
	}
	return name != ""
}

// validHost reports whether a host that url.Parse accepts is a name, or an IPv6 address in brackets. No
// resolver knows any other host, and a Host header has no place for the host. A zone is the name of an
// interface.
func validHost(hostport string) bool {
	host, _ := splitPort(hostport)
	inner, bracketed := strings.CutPrefix(host, "[")
	if !bracketed {
		return hostBytes(host)
	}
	addr, err := netip.ParseAddr(strings.TrimSuffix(inner, "]"))
	return err == nil && addr.Is6() && hostBytes(addr.Zone())
}

// hostBytes reports whether s has only letters, digits, '.', '-' and '_'.
func hostBytes(s string) bool {
	for i := range len(s) {
		c := s[i] | 0x20 // letters in lower case
		if (c < 'a' || c > 'z') && (s[i] < '0' || s[i] > '9') && s[i] != '.' && s[i] != '-' && s[i] != '_' {
			return false
		}
	}
	return true
}

// plainName reports whether the URI's host is a name in lower case that no resolver takes for an
// address.
func plainName(uri string) bool {
	_, authority, _, ok := splitURI(uri)
	host, _ := splitPort(authority)
	return ok && plainAuthority(authority) && !endsInDigits(strings.TrimRight(host, "."))
}

// splitPort cuts the port off, "" without a port.
func splitPort(hostport string) (host, port string) {
	colon := strings.LastIndexByte(hostport, ':')
	if colon < 0 || strings.HasSuffix(hostport, "]") {
		return hostport, ""
	}
	return hostport[:colon], hostport[colon+1:]
}

// plainDestination is a part of the URI itself if the URI names the port.
func plainDestination(uri string, secure bool, authority string) string {
	scheme := schemeHTTP
	if secure {
		scheme = schemeHTTPS
	}
	_, port := splitPort(authority)
	if end := len(scheme) + len(authority); port != "" && strings.HasPrefix(uri, scheme) {
		return uri[:end]
	}
	return destination(secure, authority)
}

func destination(secure bool, hostport string) string {
	host, port := splitPort(hostport)
	name, zone, zoned := strings.Cut(host, "%")
	host = strings.ToLower(name)
	if zoned { // the zone names an interface, where case matters
		host += "%" + zone
	}
	switch {
	case secure && port == "":
		return schemeHTTPS + host + ":443"
	case secure:
		return schemeHTTPS + host + ":" + port
	case port == "":
		return schemeHTTP + host + ":80"
	}
	return schemeHTTP + host + ":" + port
}

// hostHeader leaves out the zone of an IPv6 address, which has no meaning on another machine.
func hostHeader(u *url.URL) string {
	before, after, zoned := strings.Cut(u.Host, "%")
	if !zoned {
		return u.Host
	}
	_, rest, _ := strings.Cut(after, "]")
	return before + "]" + rest
}

func credentials(user *url.Userinfo) string {
	if user == nil {
		return ""
	}
	password, _ := user.Password()
	return base64.StdEncoding.EncodeToString([]byte(user.Username() + ":" + password))
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// appendResource appends path and query unchanged, except for bytes without a place in RFC 3986, which
// are percent-encoded.
func appendResource(b []byte, resource string) []byte {
	const hex = "0123456789ABCDEF"
	if !strings.HasPrefix(resource, "/") {
		b = append(b, '/')
	}
	for i := range len(resource) {
		if c := resource[i]; resourceByte(c) {
			b = append(b, c)
		} else {
			b = append(b, '%', hex[c>>4], hex[c&15])
		}
	}
	return b
}

// resourceByte reports whether c may stand in a path or query. Brackets strictly may not, but everybody
// sends brackets.
func resourceByte(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return c < 0x80 && strings.IndexByte("-._~!$&'()*+,;=:@/?%[]", c) >= 0
}
