package ui

import (
	"fmt"
	"html"
	"html/template"
	"strings"
	"unicode"
	"unicode/utf8"

	"chronos/scheduler/timer"
)

// Lengths at which texts of timers are cut, in characters.
const (
	shortText = 200
	longText  = 16 << 10
	tagText   = 40
)

// shown is a text of a timer, cut at 200 characters, and at 600 bytes of the page. Characters that do not show, or that change the
// direction of the text, are shown as escapes.
func shown(text string) template.HTML { return escaped(text, shortText) }

// whole is shown for a text that is cut late.
func whole(text string) template.HTML { return escaped(text, longText) }

// tagged is shown for a short text.
func tagged(text string) template.HTML { return escaped(text, tagText) }

// escaped is the text as HTML, cut at most characters.
func escaped(text string, most int) template.HTML {
	var out strings.Builder
	pieces(text, most, func(piece string, escape bool) {
		if escape {
			out.WriteString(`<span class="esc">` + piece + `</span>`)
			return
		}
		out.WriteString(html.EscapeString(piece))
	}, func() { out.WriteString(`<span class="cut" title="the text goes on">…</span>`) })
	return template.HTML(out.String()) //nolint:gosec // all that comes from outside is escaped
}

// plain is shown for places that have no markup.
func plain(text string) string {
	var out strings.Builder
	pieces(text, shortText, func(piece string, _ bool) { out.WriteString(piece) }, func() { out.WriteString("…") })
	return out.String()
}

// Bytes of a page.
const (
	bytesPerCharacter = 3  // on average
	bytesOfMarkup     = 25 // around an escape
	bytesOfEntity     = 5  // of &, <, > and quotes
)

// pieces calls emit with the pieces of a text, in order: parts that show themselves, and the escapes of
// characters that do not. After the given number of characters, or three times as many bytes of the page,
// pieces calls cut and ends.
func pieces(text string, most int, emit func(piece string, escape bool), cut func()) {
	begin, count, bytes := 0, 0, 0 // begin is of the part that needs no escapes
	for i, r := range text {
		if count == most || bytes >= bytesPerCharacter*most {
			emit(text[begin:i], false)
			cut()
			return
		}
		count++
		size, escape := utf8.RuneLen(r), escapeOf(r)
		if r == utf8.RuneError {
			if _, size = utf8.DecodeRuneInString(text[i:]); size == 1 { // not UTF-8
				escape = fmt.Sprintf(`\x%02x`, text[i])
			}
		}
		if escape == "" {
			bytes += size
			if strings.ContainsRune(`&<>"'`, r) {
				bytes += bytesOfEntity - size
			}
			continue
		}
		bytes += len(escape) + bytesOfMarkup
		if begin < i {
			emit(text[begin:i], false)
		}
		emit(escape, true)
		begin = i + size
	}
	emit(text[begin:], false)
}

// visible reports whether a character shows itself, and leaves the characters around alone.
func visible(r rune) bool {
	return r == ' ' || r == '\n' || unicode.IsGraphic(r) && !unicode.IsSpace(r) && !unicode.In(r, unicode.Cf, unicode.Co, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// escapeOf is the escape of a character that does not show itself; "" for a character that does.
func escapeOf(r rune) string {
	switch {
	case visible(r):
		return ""
	case r == '\t':
		return `\t`
	case r == '\r':
		return `\r`
	case r > 0xffff:
		return fmt.Sprintf(`\U%08x`, r)
	}
	return fmt.Sprintf(`\u%04x`, r)
}

// shownURI is the URI of a callback for display, without user and password.
func shownURI(c *timer.Callback) string {
	uri := c.Redacted()
	if uri == "" && c.URI != "" {
		return "(the URI can't be read)"
	}
	return strings.Replace(uri, "://"+timer.RedactedUser+"@", "://", 1)
}

// quoted is a word for a POSIX shell. The text has no character of value 0.
func quoted(text string) string { return `'` + strings.ReplaceAll(text, `'`, `'\''`) + `'` }

// joined lists names.
func joined(names []string) string { return strings.Join(names, ", ") }
