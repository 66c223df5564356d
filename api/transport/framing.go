package transport

import (
	"bytes"
	"errors"
	"math"
	"net/http"
	"strings"

	"github.com/valyala/fasthttp"

	"chronos/api/wire"
)

// maxFields is how many header fields a request may have.
const maxFields = 100

// Why a request is refused before fasthttp sees the end of its head.
var (
	errMalformed      = errors.New("request is not strict HTTP/1.1")
	errHeaderTooLarge = errors.New("request line and headers are too large")
	errBodiesFull     = wire.Overloaded()
)

// OfCallback reports whether name is the name of a header that all callbacks have.
func OfCallback(name []byte) bool {
	return fieldIs(name, "X-Chronos-Timer") || fieldIs(name, "Webhook-Id")
}

// FromCallback is the answer to a callback. Without this rule, whoever may create timers could have
// a node call its own listeners, with the node's rights there.
func FromCallback() wire.Problem {
	return wire.NewProblem(http.StatusForbidden, "from-callback",
		"the request has X-Chronos-Timer or webhook-id, as callbacks have, and a callback may not ask chronos for anything; send the request yourself, without these headers")
}

// head reads the request line and the headers of a request, a line at a time, as strictly as RFC
// 9112 allows. fasthttp forgives bare LF line ends and several lengths, but a server between the
// client and the node may have read such requests differently. The zero value is at the start of a
// request.
type head struct {
	lines     int // lines seen, without an empty line before the request line
	size      int // bytes of the lines
	blank     bool
	http10    bool
	hosts     int
	lengths   int
	encodings int
	length    int64 // of the body; with encodings the body is chunked instead
	expects   bool  // the client waits for 100 Continue before sending the body

	method         []byte
	authorizations int
	authorization  []byte // the value of the last Authorization header
}

// next takes a line with its LF. At the end of the headers next returns true.
func (h *head) next(line []byte, maxBody int64) (end bool, err error) {
	n := len(line) - 2
	h.size += len(line)
	switch {
	case n < 0 || line[n] != '\r':
		return false, errMalformed
	case h.size > readBuffer:
		return false, errHeaderTooLarge
	case n == 0 && h.lines == 0:
		again := h.blank
		h.blank = true
		if again {
			return false, errMalformed
		}
		return false, nil
	case n == 0:
		return true, h.finish(maxBody)
	}
	h.lines++
	switch {
	case h.lines == 1:
		return false, h.requestLine(line[:n])
	case h.lines > 1+maxFields:
		return false, errHeaderTooLarge
	}
	return false, h.field(line[:n])
}

// requestLine takes METHOD SP target SP version. The method may be unknown here, but must be in
// capitals like all registered methods.
func (h *head) requestLine(line []byte) error {
	method, rest, _ := bytes.Cut(line, []byte{' '})
	target, version, _ := bytes.Cut(rest, []byte{' '})
	if len(method) == 0 || len(target) == 0 {
		return errMalformed
	}
	for _, c := range method {
		if (c < 'A' || c > 'Z') && c != '-' {
			return errMalformed
		}
	}
	if !validTarget(method, target) {
		return errMalformed
	}
	h.method = append(h.method[:0], method...)
	switch string(version) {
	case "HTTP/1.1":
	case "HTTP/1.0":
		h.http10 = true
	default:
		return errMalformed
	}
	return nil
}

// field takes a header field. A line that begins with white space continues the line before, which
// is obsolete; field refuses such a line, since the line has no name.
func (h *head) field(line []byte) error {
	name, value, err := splitField(line)
	if err != nil {
		return err
	}
	switch {
	case fieldIs(name, fasthttp.HeaderHost):
		h.hosts++
		if !validHost(value) {
			return errMalformed
		}
	case fieldIs(name, fasthttp.HeaderAuthorization):
		h.authorizations++
		h.authorization = append(h.authorization[:0], value...)
	case OfCallback(name):
		return FromCallback()
	case fieldIs(name, fasthttp.HeaderExpect):
		h.expects = h.expects || !h.http10 && fieldIs(value, "100-continue")
	case fieldIs(name, fasthttp.HeaderContentLength):
		h.lengths++
		return h.contentLength(value)
	case fieldIs(name, fasthttp.HeaderTransferEncoding):
		h.encodings++
		if !fieldIs(value, "chunked") {
			return errMalformed
		}
	}
	return nil
}

// onlyAuthorization is the header Authorization. onlyAuthorization is nil if the header is missing
// or comes several times: a server on the way may have read a different header.
func (h *head) onlyAuthorization() []byte {
	if h.authorizations != 1 {
		return nil
	}
	return h.authorization
}

// splitField takes a header or trailer field apart; line has no line end.
func splitField(line []byte) (name, value []byte, err error) {
	name, value, colon := bytes.Cut(line, []byte{':'})
	if !colon || len(name) == 0 {
		return nil, nil, errMalformed
	}
	value = bytes.Trim(value, " \t")
	for _, c := range name {
		if !isTokenByte(c) {
			return nil, nil, errMalformed
		}
	}
	for _, c := range value {
		if c < ' ' && c != '\t' || c == 0x7f {
			return nil, nil, errMalformed
		}
	}
	return name, value, nil
}

// contentLength takes digits only.
func (h *head) contentLength(value []byte) error {
	if len(value) == 0 {
		return errMalformed
	}
	h.length = 0
	for _, c := range value {
		digit := int64(c - '0')
		if c < '0' || c > '9' || h.length > (math.MaxInt64-digit)/10 {
			return errMalformed
		}
		h.length = h.length*10 + digit
	}
	return nil
}

// finish checks the headers as a whole.
func (h *head) finish(maxBody int64) error {
	switch {
	case h.hosts > 1, h.hosts == 0 && !h.http10:
		return errMalformed
	case h.lengths+h.encodings > 1, h.encodings > 0 && h.http10:
		return errMalformed
	case h.length > maxBody:
		return fasthttp.ErrBodyTooLarge
	}
	return nil
}

// isTokenByte reports whether c may be in the name of a field (RFC 9110, 5.6.2).
func isTokenByte(c byte) bool {
	const (
		low  = 1<<'!' | 1<<'#' | 1<<'$' | 1<<'%' | 1<<'&' | 1<<'\'' | 1<<'*' | 1<<'+' | 1<<'-' | 1<<'.' | (1<<10-1)<<'0'
		high = (1<<26-1)<<('A'-64) | (1<<26-1)<<('a'-64) | 1<<('^'-64) | 1<<('_'-64) | 1<<('`'-64) | 1<<('|'-64) | 1<<('~'-64)
	)
	switch {
	case c < 64:
		return uint64(low)>>c&1 != 0
	case c < 128:
		return uint64(high)>>(c-64)&1 != 0
	}
	return false
}

func fieldIs(have []byte, want string) bool {
	return len(have) == len(want) && strings.EqualFold(string(have), want)
}
