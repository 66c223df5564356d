package httpgen

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

const (
	maxHeader = 16 << 10
	keptBody  = 256 // bytes of a body for Check
)

var (
	errStatusLine = errors.New("answer has no status line")
	errLength     = errors.New("answer has no usable Content-Length")
	errHeader     = errors.New("header of the answer is too long")
	errSurplus    = errors.New("more came than the answer")
)

// parser reads the answers on a connection, one after another, from pieces of any size. The zero
// value is ready.
type parser struct {
	header []byte // received part of an incomplete header
	inBody bool
	left   int // bytes of the body still to come
	close  bool

	status int
	body   []byte // first bytes of the body
}

// feed takes the next piece, and reports whether an answer is complete. Then status, body and close
// describe the answer until the next feed.
func (p *parser) feed(piece []byte) (done bool, err error) {
	if !p.inBody {
		if piece, err = p.feedHeader(piece); err != nil || !p.inBody {
			return false, err
		}
	}
	if len(piece) > p.left {
		return false, errSurplus // requests are not pipelined
	}
	if room := keptBody - len(p.body); room > 0 {
		p.body = append(p.body, piece[:min(room, len(piece))]...)
	}
	p.left -= len(piece)
	p.inBody = p.left > 0
	return !p.inBody, nil
}

// feedHeader returns the part of the piece after the header, once the header is complete.
func (p *parser) feedHeader(piece []byte) (rest []byte, err error) {
	whole, before := piece, len(p.header)
	if before > 0 {
		p.header = append(p.header, piece...)
		whole = p.header
	}
	end := bytes.Index(whole, []byte("\r\n\r\n"))
	if end < 0 {
		if len(whole) > maxHeader {
			return nil, errHeader
		}
		if before == 0 {
			p.header = append(p.header, piece...)
		}
		return nil, nil
	}
	if err := p.readHeader(whole[:end]); err != nil {
		return nil, err
	}
	p.header, p.body, p.inBody = p.header[:0], p.body[:0], true
	return piece[end+4-before:], nil
}

func (p *parser) readHeader(header []byte) error {
	line, fields, _ := bytes.Cut(header, []byte("\r\n"))
	if len(line) < len("HTTP/1.1 200") || !bytes.HasPrefix(line, []byte("HTTP/1.")) {
		return errStatusLine
	}
	status, err := strconv.Atoi(string(line[9:12]))
	if err != nil {
		return errStatusLine
	}
	p.status, p.left, p.close = status, -1, false
	for len(fields) > 0 {
		line, fields, _ = bytes.Cut(fields, []byte("\r\n"))
		switch {
		case isField(line, "content-length:"):
			n, err := strconv.Atoi(string(bytes.TrimSpace(line[len("content-length:"):])))
			if err != nil || n < 0 {
				return errLength
			}
			p.left = n
		case isField(line, "connection:"):
			p.close = bytes.EqualFold(bytes.TrimSpace(line[len("connection:"):]), []byte("close"))
		}
	}
	if p.left < 0 {
		return fmt.Errorf("%w (status %d)", errLength, status)
	}
	return nil
}

// isField reports whether a line begins with a name. The name is in lower case.
func isField(line []byte, name string) bool {
	if len(line) < len(name) || line[0]|0x20 != name[0] {
		return false
	}
	return bytes.EqualFold(line[:len(name)], []byte(name))
}
