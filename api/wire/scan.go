package wire

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"chronos/scheduler/timer"
)

const (
	// maxDepth bounds how deeply values may nest in a skipped part of a body. Known members nest
	// five deep.
	maxDepth = 32
	// maxParserDepth is how deeply jsontext lets values nest.
	maxParserDepth = 10_000
)

const whiteSpace = " \t\r\n" // of JSON

// scanner reads a JSON text, a body or a part of a body, value by value, by means of jsontext. The
// scanner reads as strictly as I-JSON (RFC 7493), but allows repeated member names. Bytes that are
// not UTF-8 and escapes for half a character are refused, since they could not be sent unchanged. A
// lax scanner lets both pass in strings.
//
// All errors are *timer.InvalidError. Unlike the texts of jsontext, the texts of these errors hold
// nothing of the body. The zero value is ready for readStrictly or readLaxly, and a used scanner is
// ready again.
type scanner struct {
	body   []byte
	first  int // byte of the body that the text begins with
	json   jsontext.Decoder
	source bytes.Buffer // aliases body; jsontext reads a bytes.Buffer without copying
}

// readStrictly begins to read the part of a body from first up to next.
func (s *scanner) readStrictly(body []byte, first, next int) {
	s.body, s.first, s.source = body, first, *bytes.NewBuffer(body[first:next])
	s.json.Reset(&s.source, jsontext.AllowDuplicateNames(true))
}

// readLaxly begins to read all of a body.
func (s *scanner) readLaxly(body []byte) {
	s.body, s.first, s.source = body, 0, *bytes.NewBuffer(body)
	s.json.Reset(&s.source, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// release forgets the body.
func (s *scanner) release() {
	s.body, s.source = nil, bytes.Buffer{}
	s.json.Reset(&s.source)
}

func refuse(pointer, code, detail string) error {
	return &timer.InvalidError{Pointer: pointer, Code: code, Detail: detail}
}

// blank reports whether the body is only white space.
func (s *scanner) blank() bool { return len(bytes.Trim(s.body, whiteSpace)) == 0 }

// end refuses anything but white space.
func (s *scanner) end() error {
	rest := bytes.TrimLeft(s.body[s.offset():], whiteSpace)
	if len(rest) == 0 {
		return nil
	}
	return refuse("", "body-trailing", "something follows the JSON object at "+s.place(len(s.body)-len(rest))+"; send one object and nothing else")
}

// offset is where in the body the part that was read ends.
func (s *scanner) offset() int { return s.first + int(s.json.InputOffset()) }

// place names a byte of the body, counted from 1.
func (s *scanner) place(offset int) string { return "byte " + strconv.Itoa(offset+1) }

// open steps into the object or array that begins here. If something else begins here, open reads
// nothing and returns false.
func (s *scanner) open(kind jsontext.Kind) bool {
	if s.json.PeekKind() != kind {
		return false
	}
	_, err := s.json.ReadToken()
	return err == nil
}

// more reports whether another element of the open array, or member of the open object, follows.
// Otherwise more steps out. end is the kind of token that closes the array or object.
func (s *scanner) more(pointer string, end jsontext.Kind) (bool, error) {
	if s.json.PeekKind() != end {
		return true, nil
	}
	_, err := s.json.ReadToken()
	return false, s.told(pointer, err)
}

// member steps to the value of the next member of the open object and returns the member's name,
// which is valid until the next call. ok is false if no member follows. pointer is the object's
// pointer.
func (s *scanner) member(pointer string) (name jsontext.Token, ok bool, err error) {
	name, err = s.json.ReadToken()
	if err != nil {
		return name, false, s.told(pointer, err)
	}
	return name, name.Kind() == jsontext.KindString, nil
}

// text reads a string and copies the string. If something else begins here, text reads nothing and
// ok is false.
func (s *scanner) text(pointer string) (text string, ok bool, err error) {
	if s.json.PeekKind() != jsontext.KindString {
		return "", false, nil
	}
	token, err := s.json.ReadToken()
	if err != nil {
		return "", true, s.told(pointer, err)
	}
	return token.String(), true, nil
}

// number reads a number and returns the number's text, which is valid until the next call. If
// something else begins here, number reads nothing and ok is false.
func (s *scanner) number(pointer string) (text []byte, ok bool, err error) {
	if s.json.PeekKind() != jsontext.KindNumber {
		return nil, false, nil
	}
	text, err = s.json.ReadValue()
	return text, true, s.told(pointer, err)
}

// null reports whether null, or an invalid text that looks like null, begins here. null reads
// nothing.
func (s *scanner) null() bool { return s.json.PeekKind() == jsontext.KindNull }

// mistyped refuses the value that begins here. If no value can begin so, mistyped refuses the body
// as malformed.
func (s *scanner) mistyped(pointer, code, detail string) error {
	if kind := s.json.PeekKind(); kind == jsontext.KindInvalid || kind == jsontext.KindEndObject || kind == jsontext.KindEndArray {
		if _, err := s.json.ReadToken(); err != nil {
			return s.told(pointer, err)
		}
	}
	return refuse(pointer, code, detail)
}

// skip steps over a value of any kind. pointer leads to a value around the skipped value.
func (s *scanner) skip(pointer string) error {
	for outside := s.json.StackDepth(); ; {
		if _, err := s.json.ReadToken(); err != nil {
			return s.told(pointer, err)
		}
		switch depth := s.json.StackDepth() - outside; {
		case depth <= 0:
			return nil
		case depth > maxDepth:
			return refuse(pointer, "body-depth", "values nest more than "+strconv.Itoa(maxDepth)+" deep; flatten them")
		}
	}
}

// part steps over a value, or a member's name, and returns where in the body the part begins and
// ends. SkipValue does not recurse, unlike ReadValue, so a deeply nested value takes no stack.
func (s *scanner) part() (first, next int, err error) {
	before := s.offset()
	if err := s.json.SkipValue(); err != nil {
		return 0, 0, s.told("", err)
	}
	next = s.offset()
	// No value begins with white space, a comma or a colon.
	return next - len(bytes.TrimLeft(s.body[before:next], whiteSpace+",:")), next, nil
}

// told says in this package's words which fault jsontext found; pointer leads to the value that was
// being read.
func (s *scanner) told(pointer string, err error) error {
	if err == nil {
		return nil
	}
	syntactic, ok := errors.AsType[*jsontext.SyntacticError](err)
	if !ok || errors.Is(err, io.ErrUnexpectedEOF) {
		return refuse("", "body-syntax", "the body is not valid JSON: it ends too early; send all of it, with every quote and bracket closed")
	}
	offset := min(max(s.first+int(syntactic.ByteOffset), 0), len(s.body))
	switch at := s.body[offset:]; {
	case notUTF8(at):
		return refuse(pointer, "string-utf8", "there are bytes that are not UTF-8 at "+s.place(offset)+", which could not be sent unchanged; encode binary data, for example as Base64")
	case s.json.StackDepth() == maxParserDepth:
		return refuse("", "body-depth", "values nest "+strconv.Itoa(maxParserDepth)+" or more deep at "+s.place(offset)+"; flatten them")
	case escapesUTF16(at):
		return refuse(pointer, "string-surrogate", "half of a surrogate pair is escaped at "+s.place(offset)+", which is no character and could not be sent; send both halves, or encode binary data, for example as Base64")
	}
	return refuse("", "body-syntax", "the body is not valid JSON at "+s.place(offset)+"; check the quotes, commas, colons and brackets there")
}

func notUTF8(text []byte) bool {
	r, size := utf8.DecodeRune(text)
	return r == utf8.RuneError && size == 1
}

// escapesUTF16 reports whether text begins with the escape of a surrogate.
func escapesUTF16(text []byte) bool {
	const escape = `\ud800`
	if len(text) < len(escape) || !bytes.HasPrefix(text, []byte(escape[:2])) {
		return false
	}
	unit, err := strconv.ParseUint(string(text[2:len(escape)]), 16, 16)
	return err == nil && utf16.IsSurrogate(rune(unit))
}
