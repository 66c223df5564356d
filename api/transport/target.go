package transport

import (
	"bytes"
	"math"
	"net/http"
)

// validTarget reports whether a request may ask for target: in origin form, in absolute form with
// http or https, or as * with OPTIONS. A path that begins with two slashes is refused, since some
// servers, fasthttp among them, take the text after the slashes for a host.
func validTarget(method, target []byte) bool {
	for _, c := range target {
		if c <= ' ' || c >= 0x7f || c == '#' {
			return false
		}
	}
	switch {
	case target[0] == '/':
		return len(target) == 1 || target[1] != '/'
	case string(target) == "*":
		return string(method) == http.MethodOptions
	}
	scheme, rest, absolute := bytes.Cut(target, []byte("://"))
	if !absolute || !fieldIs(scheme, "http") && !fieldIs(scheme, "https") {
		return false
	}
	if end := bytes.IndexAny(rest, "/?"); end >= 0 {
		rest = rest[:end]
	}
	return validHost(rest)
}

// validHost reports whether value is a host, by name or address, and perhaps a port (RFC 9112,
// 3.2). A comma and escapes are refused: RFC 3986 allows both in a host, but no real host has them.
// An http URI has no empty host (RFC 9110, 4.2.1).
func validHost(value []byte) bool {
	if literal, ok := bytes.CutPrefix(value, []byte{'['}); ok {
		address, rest, closed := bytes.Cut(literal, []byte{']'})
		return closed && len(address) > 0 && len(bytes.Trim(address, "0123456789abcdefABCDEF:.")) == 0 && validPort(rest)
	}
	end := 0
	for end < len(value) && isHostByte(value[end]) {
		end++
	}
	return end > 0 && validPort(value[end:])
}

// validPort takes an empty text, or a colon and a number that may be left out.
func validPort(rest []byte) bool {
	if len(rest) == 0 {
		return true
	}
	port := 0
	for _, c := range rest[1:] {
		if port = port*10 + int(c-'0'); c < '0' || c > '9' || port > math.MaxUint16 {
			return false
		}
	}
	return rest[0] == ':'
}

func isHostByte(c byte) bool {
	const (
		low  = 1<<'!' | 1<<'$' | 1<<'&' | 1<<'\'' | 1<<'(' | 1<<')' | 1<<'*' | 1<<'+' | 1<<'-' | 1<<'.' | (1<<10-1)<<'0' | 1<<';' | 1<<'='
		high = (1<<26-1)<<('A'-64) | (1<<26-1)<<('a'-64) | 1<<('_'-64) | 1<<('~'-64)
	)
	if c < 64 {
		return uint64(low)>>c&1 != 0
	}
	return c < 128 && uint64(high)>>(c-64)&1 != 0
}
