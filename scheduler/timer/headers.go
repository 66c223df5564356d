package timer

import (
	"iter"
	"net/url"
	"strings"
)

// Limits of a callback's headers.
const (
	MaxHeaders     = 32
	MaxHeaderName  = 128      // bytes
	MaxHeaderValue = 4 << 10  // bytes
	MaxHeaderBytes = 16 << 10 // names and values together
)

// Headers are headers of a callback in the order of the request, as the text of an HTTP/1.1 head:
// each header is headerStart, the name, headerMiddle and the value. The text is fit to send, and two
// Headers are equal if their texts are. The zero value has no header.
type Headers string

const headerStart, headerMiddle = "\r\n", ": "

// RedactedValue stands for the value of a secret header for display.
const RedactedValue = "***"

// With is h with another header, or an error for a header that may not be sent, or one too many.
// The pointer of the error names the header if the name may be a name.
func (h Headers) With(name, value string) (Headers, *InvalidError) {
	if err := checkHeader(name, value); err != nil {
		return h, err
	}
	with := h.append(name, value)
	count := strings.Count(string(with), headerStart)
	_, twice := h.Get(name)
	switch {
	case twice:
		return h, Invalid(headersPointer, "header-name", "a header stands twice; send each once, whatever the case of its name")
	case count > MaxHeaders:
		return h, Invalid(headersPointer, "headers-long", "headers has more than %d members; leave some out", MaxHeaders)
	case len(with)-count*len(headerStart+headerMiddle) > MaxHeaderBytes:
		return h, Invalid(headersPointer, "headers-long", "the names and values of headers are longer than %d bytes together; shorten them", MaxHeaderBytes)
	}
	return with, nil
}

func (h Headers) append(name, value string) Headers {
	return h + Headers(headerStart+name+headerMiddle+value)
}

// All yields the headers.
func (h Headers) All() iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		rest, more := strings.CutPrefix(string(h), headerStart)
		for more {
			var header string
			header, rest, more = strings.Cut(rest, headerStart)
			name, value, _ := strings.Cut(header, headerMiddle)
			if !yield(name, value) {
				return
			}
		}
	}
}

// Get is the value of a header, whatever the case of the name.
func (h Headers) Get(name string) (value string, ok bool) {
	for known, value := range h.All() {
		if strings.EqualFold(known, name) {
			return value, true
		}
	}
	return "", false
}

// Redacted are the headers for display: RedactedValue stands for the values of secret headers.
func (h Headers) Redacted() (shown Headers) {
	for name, value := range h.All() {
		if Secret(name) {
			value = RedactedValue
		}
		shown = shown.append(name, value)
	}
	return shown
}

// plainName is a name as receivers may see the name: some take _ and - for the same.
func plainName(name string) string { return strings.ReplaceAll(strings.ToLower(name), "_", "-") }

// Secret reports whether the values of headers of the name are secrets, by the name.
func Secret(name string) bool {
	lower := plainName(name)
	for _, end := range []string{"authorization", "cookie", "-token", "-key", "-secret"} {
		if strings.HasSuffix(lower, end) {
			return true
		}
	}
	return false
}

// reserved reports whether chronos, or HTTP/1.1 itself, decides on the headers of the name.
func reserved(name string) bool {
	lower := plainName(name)
	switch lower {
	case "host", "content-length", "transfer-encoding", "connection", "te", "trailer", "upgrade", "expect", "x-sequence-number":
		return true
	}
	return strings.HasPrefix(lower, "webhook-") || strings.HasPrefix(lower, "x-chronos-")
}

const headersPointer = "/callback/http/headers"

// HeaderPointer leads to a header in a request, or to all headers if no header can have the name.
func HeaderPointer(name string) string {
	if !nameOK(name) {
		return headersPointer
	}
	return headersPointer + "/" + strings.ReplaceAll(name, "~", "~0")
}

func nameOK(name string) bool {
	return name != "" && len(name) <= MaxHeaderName && !strings.ContainsFunc(name, func(r rune) bool { return !tokenRune(r) })
}

func checkHeader(name, value string) *InvalidError {
	if !nameOK(name) {
		return Invalid(headersPointer, "header-name", "the name of a header is not 1 to %d of the characters A-Z a-z 0-9 ! # $ %% & ' * + - . ^ _ ` | ~; correct it", MaxHeaderName)
	}
	pointer := HeaderPointer(name)
	switch {
	case reserved(name):
		return Invalid(pointer, "header-reserved", "this header is set by chronos or by HTTP itself; leave it out")
	case len(value) > MaxHeaderValue:
		return Invalid(pointer, "header-value", "the value of this header is longer than %d bytes; shorten it", MaxHeaderValue)
	case strings.ContainsFunc(value, func(r rune) bool { return r > '~' || r < ' ' && r != '\t' }):
		return Invalid(pointer, "header-value", "the value of this header has a character that is not visible ASCII, a space or a tab; encode it")
	case strings.Trim(value, " \t") != value:
		return Invalid(pointer, "header-value", "the value of this header begins or ends with a space or a tab; leave that out")
	case value == RedactedValue && Secret(name):
		return Invalid(pointer, "header-redacted", "this header has %s in place of its value, as answers do that hide it; give the real one", RedactedValue)
	}
	return nil
}

// tokenRune reports whether a name of a header may have the character (RFC 9110, 5.6.2).
func tokenRune(r rune) bool {
	return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

// checkAuthorization refuses two kinds of credentials. With has checked the headers by themselves.
func (c *Callback) checkAuthorization() *InvalidError {
	for name := range c.Headers.All() {
		if !strings.EqualFold(name, "Authorization") || !c.hasUser() {
			continue
		}
		return Invalid(HeaderPointer(name), "header-reserved", "uri has a user, which is sent as Authorization; leave out the user or this header")
	}
	return nil
}

// hasUser reports whether the URI has a user.
func (c *Callback) hasUser() bool {
	u, err := url.Parse(c.URI)
	return err == nil && u.User != nil
}
