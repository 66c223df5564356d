package api

import (
	"bytes"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"chronos/scheduler"
)

// maxDepth bounds how deeply values may nest in a part of a body that is
// skipped. What is read nests five deep.
const maxDepth = 32

// scanner reads one JSON text (RFC 8259) from buf, value by value. It is
// stricter than encoding/json where that would alter what a client sent: bytes
// that are not UTF-8 and escapes that stand for half a character are refused.
// Nothing it returns aliases buf except where it says so. All errors are
// *scheduler.InvalidError, whose texts hold nothing of buf.
type scanner struct {
	buf []byte
	pos int
	// scratch holds the last string that had escapes.
	scratch []byte
}

func refuse(pointer, code, detail string) error {
	return &scheduler.InvalidError{Pointer: pointer, Code: code, Detail: detail}
}

func (s *scanner) syntax(expected string) error {
	if s.pos >= len(s.buf) {
		return refuse("", "body-syntax", "the body is not valid JSON: it ends where "+expected+" should be")
	}
	return refuse("", "body-syntax", "the body is not valid JSON at byte "+strconv.Itoa(s.pos+1)+": there should be "+expected)
}

// next skips white space and returns the byte there, 0 at the end.
func (s *scanner) next() byte {
	for ; s.pos < len(s.buf); s.pos++ {
		switch c := s.buf[s.pos]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// end refuses anything but white space.
func (s *scanner) end() error {
	if s.next(); s.pos < len(s.buf) {
		return refuse("", "body-trailing", "something follows the JSON object at byte "+strconv.Itoa(s.pos+1)+"; send one object and nothing else")
	}
	return nil
}

// open steps into an object or array whose first byte is open, and reports
// false, having read nothing, if the value is something else.
func (s *scanner) open(open byte) bool {
	if s.next() != open {
		return false
	}
	s.pos++
	return true
}

// more reports whether another element of the open object or array follows, and
// stops before it; first says that none was read yet.
func (s *scanner) more(first bool, closing byte) (bool, error) {
	switch c := s.next(); {
	case c == closing:
		s.pos++
		return false, nil
	case first:
		return true, nil
	case c != ',':
		return false, s.syntax("a comma or " + string(rune(closing)))
	}
	s.pos++
	s.next()
	return true, nil
}

// member steps to the value of the next member of the open object and returns
// its name, which is valid until the next call. pointer is the object's.
func (s *scanner) member(first bool, pointer string) (name []byte, ok bool, err error) {
	if ok, err = s.more(first, '}'); !ok || err != nil {
		return nil, false, err
	}
	if s.next() != '"' {
		return nil, false, s.syntax("a member name in double quotes")
	}
	if name, err = s.text(pointer); err != nil {
		return nil, false, err
	}
	if s.next() != ':' {
		return nil, false, s.syntax("a colon")
	}
	s.pos++
	return name, true, nil
}

// text reads the string that begins here and returns it unescaped. The result
// is valid until the next call and aliases buf.
func (s *scanner) text(pointer string) ([]byte, error) {
	raw, escaped, err := s.quoted(pointer)
	if err != nil || !escaped {
		return raw, err
	}
	s.scratch, err = unescape(slices.Grow(s.scratch[:0], len(raw)), raw, pointer)
	return s.scratch, err
}

// quoted reads the string that begins here, checks its bytes and the form of
// its escapes, and returns what stands between the quotes.
func (s *scanner) quoted(pointer string) (raw []byte, escaped bool, err error) {
	s.pos++
	start, ascii := s.pos, true
	for s.pos < len(s.buf) {
		switch c := s.buf[s.pos]; {
		case c == '"':
			raw = s.buf[start:s.pos]
			s.pos++
			if !ascii && !utf8.Valid(raw) {
				return nil, false, refuse(pointer, "string-utf8", "a string holds bytes that are not UTF-8 and could not be sent unchanged; encode binary data, for example as Base64")
			}
			return raw, escaped, nil
		case c == '\\':
			escaped = true
			if err := s.escape(); err != nil {
				return nil, false, err
			}
			continue
		case c < ' ':
			return nil, false, s.syntax("an escape such as \\n: control characters can't stand in a string")
		case c >= utf8.RuneSelf:
			ascii = false
		}
		s.pos++
	}
	return nil, false, s.syntax("a closing double quote")
}

// escape steps over one escape.
func (s *scanner) escape() error {
	s.pos++
	if s.pos >= len(s.buf) {
		return s.syntax("an escape")
	}
	switch s.buf[s.pos] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.pos++
		return nil
	case 'u':
	default:
		return s.syntax(`one of " \ / b f n r t u`)
	}
	s.pos++
	for range 4 {
		if s.pos >= len(s.buf) || !isHex(s.buf[s.pos]) {
			return s.syntax("a hexadecimal digit")
		}
		s.pos++
	}
	return nil
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// unescape appends what raw stands for; its escapes are well-formed.
func unescape(dst, raw []byte, pointer string) ([]byte, error) {
	for {
		at := bytes.IndexByte(raw, '\\')
		if at < 0 {
			return append(dst, raw...), nil
		}
		dst = append(dst, raw[:at]...)
		c := raw[at+1]
		if c != 'u' {
			dst = append(dst, unescaped(c))
			raw = raw[at+2:]
			continue
		}
		r := hex4(raw[at+2:])
		raw = raw[at+6:]
		if utf16.IsSurrogate(r) {
			low := rune(-1)
			if len(raw) >= 6 && raw[0] == '\\' && raw[1] == 'u' {
				low = hex4(raw[2:])
			}
			if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
				return nil, refuse(pointer, "string-surrogate", "a string holds half of a surrogate pair, which is no character and could not be sent; send both halves, or encode binary data, for example as Base64")
			}
			raw = raw[6:]
		}
		dst = utf8.AppendRune(dst, r)
	}
}

func unescaped(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c // " \ /
}

func hex4(digits []byte) (r rune) {
	for _, c := range digits[:4] {
		switch {
		case c <= '9':
			c -= '0'
		case c <= 'F':
			c -= 'A' - 10
		default:
			c -= 'a' - 10
		}
		r = r<<4 | rune(c)
	}
	return r
}

// number reads the number that begins here, if one does. The result aliases buf.
func (s *scanner) number() (text []byte, ok bool, err error) {
	if c := s.next(); c != '-' && !isDigit(c) {
		return nil, false, nil
	}
	start := s.pos
	s.skipByte('-')
	if !s.skipByte('0') {
		err = s.digits()
	}
	if err == nil && s.skipByte('.') {
		err = s.digits()
	}
	if err == nil && (s.skipByte('e') || s.skipByte('E')) {
		if !s.skipByte('+') {
			s.skipByte('-')
		}
		err = s.digits()
	}
	return s.buf[start:s.pos], true, err
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func (s *scanner) skipByte(c byte) bool {
	if s.pos < len(s.buf) && s.buf[s.pos] == c {
		s.pos++
		return true
	}
	return false
}

func (s *scanner) digits() error {
	start := s.pos
	for s.pos < len(s.buf) && isDigit(s.buf[s.pos]) {
		s.pos++
	}
	if s.pos == start {
		return s.syntax("a digit")
	}
	return nil
}

// skip steps over one value of any kind. pointer is the value's or that of
// something around it.
func (s *scanner) skip(pointer string, depth int) error {
	if depth > maxDepth {
		return refuse(pointer, "body-depth", "values nest more than "+strconv.Itoa(maxDepth)+" deep; flatten them")
	}
	switch c := s.next(); c {
	case '{', '[':
		s.pos++
		return s.skipElements(pointer, c, depth)
	case '"':
		_, _, err := s.quoted(pointer)
		return err
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	}
	if _, ok, err := s.number(); ok || err != nil {
		return err
	}
	return s.syntax("a value")
}

func (s *scanner) skipElements(pointer string, open byte, depth int) error {
	closing := open + 2 // of { and [ in ASCII
	for first := true; ; first = false {
		ok, err := s.more(first, closing)
		if !ok || err != nil {
			return err
		}
		if open == '{' {
			if err := s.skipName(pointer); err != nil {
				return err
			}
		}
		if err := s.skip(pointer, depth+1); err != nil {
			return err
		}
	}
}

func (s *scanner) skipName(pointer string) error {
	if s.next() != '"' {
		return s.syntax("a member name in double quotes")
	}
	if _, _, err := s.quoted(pointer); err != nil {
		return err
	}
	if s.next() != ':' {
		return s.syntax("a colon")
	}
	s.pos++
	return nil
}

func (s *scanner) literal(word string) error {
	if !bytes.HasPrefix(s.buf[s.pos:], []byte(word)) {
		return s.syntax("a value")
	}
	s.pos += len(word)
	return nil
}
