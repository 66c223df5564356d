package ui

import (
	"fmt"
	"net/url"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"chronos/api/wire"
	"chronos/scheduler/store"
)

// maxCurl is the longest body of a command, in bytes.
const maxCurl = 16 << 10

// curlOf is the command that would make the timer again, and what the command leaves out. No secret is in
// the command.
func curlOf(record *store.Record, opaque bool) (command string, leftOut []string) {
	t := record.Timer
	names := 0
	for range t.Callback.Headers.All() {
		names++
	}
	if names > 0 {
		t.Callback.Headers = ""
		leftOut = append(leftOut, plural(int64(names), "header", "headers")+" of the callback")
	}
	if u, err := url.Parse(t.Callback.URI); err == nil && u.User != nil {
		t.Callback.URI = shownURI(&t.Callback)
		leftOut = append(leftOut, "the user and the password in the URI")
	}
	if t.Callback.Opaque != "" && !opaque {
		t.Callback.Opaque = ""
		leftOut = append(leftOut, "the opaque, until you show the opaque")
	}
	if !utf8.ValidString(t.Callback.Opaque) {
		t.Callback.Opaque = ""
		leftOut = append(leftOut, "the opaque, which is not UTF-8")
	}
	body, err := wire.RenderRequest(&t)
	if err == nil && len(body) > maxCurl {
		t.Callback.Opaque = ""
		leftOut = append(leftOut, "the opaque, which is too long")
		body, err = wire.RenderRequest(&t)
	}
	if err != nil || len(body) > maxCurl {
		return "", []string{"everything: the timer is too long for a command"}
	}
	return "curl -X PUT -H 'Content-Type: application/json' --data-raw " + quoted(inASCII(string(body))) +
		` "${CHRONOS_URL:-http://localhost:7253}/timers/"` + quoted(record.ID.Key), leftOut
}

// inASCII is JSON with escapes for all that is not ASCII, so that no terminal shows the text in another
// order, and for apostrophes, which are long in a shell's quotes.
func inASCII(json string) string {
	var out strings.Builder
	for _, r := range json {
		switch {
		case r == '\'', r >= 0x7f && r <= 0xffff:
			fmt.Fprintf(&out, `\u%04x`, r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		default:
			out.WriteRune(r)
		}
	}
	return out.String()
}
