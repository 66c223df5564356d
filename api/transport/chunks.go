package transport

import (
	"bytes"
	"encoding/hex"

	"github.com/valyala/fasthttp"
)

const (
	maxChunkLine       = 256  // bytes of a chunk's size with its extensions
	maxChunkExtensions = 1024 // bytes of all extensions of a body
	maxTrailers        = 4096 // bytes of all trailer fields of a body
)

// chunkPart is the part of a chunked body that comes next.
type chunkPart int

const (
	chunkSize chunkPart = iota
	chunkData
	chunkEnd // the line end after the data
	chunkTrailer
	chunkDone
)

// chunks takes a chunked body apart as the body arrives. Lines end with CR LF. Extensions and
// trailer fields are checked, bounded and dropped. The zero value is at the start of a body.
type chunks struct {
	part       chunkPart
	line       []byte // the beginning of a line that is still arriving
	left       int64  // bytes of the chunk that are still to come
	total      int64  // bytes of the body
	extensions int
	trailers   int // bytes
}

// next takes bytes from b. used is how many bytes next took, and data are the bytes of the body
// among the used bytes.
func (k *chunks) next(b []byte, maxBody int64) (used int, data []byte, err error) {
	if k.part == chunkData {
		used = int(min(k.left, int64(len(b))))
		k.left -= int64(used)
		if k.left == 0 {
			k.part = chunkEnd
		}
		return used, b[:used], nil
	}
	end := bytes.IndexByte(b, '\n')
	used = end + 1
	if end < 0 {
		used = len(b)
	}
	most, tooLong := maxChunkLine, errMalformed
	if k.part == chunkTrailer {
		most, tooLong = maxTrailers-k.trailers, errHeaderTooLarge
	}
	k.line = append(k.line, b[:min(used, most+1)]...)
	if len(k.line) > most {
		return used, nil, tooLong
	}
	if end < 0 {
		return used, nil, nil
	}
	line, terminated := bytes.CutSuffix(k.line, []byte("\r\n"))
	if !terminated {
		return used, nil, errMalformed
	}
	err = k.takeLine(line, maxBody)
	k.line = k.line[:0]
	return used, nil, err
}

func (k *chunks) takeLine(line []byte, maxBody int64) error {
	switch {
	case k.part == chunkSize:
		return k.takeSize(line, maxBody)
	case k.part == chunkTrailer && len(line) > 0:
		k.trailers += len(line) + len("\r\n")
		return checkTrailer(line)
	case len(line) > 0:
		return errMalformed
	case k.part == chunkEnd:
		k.part = chunkSize
	default:
		k.part = chunkDone
	}
	return nil
}

// checkTrailer refuses a malformed trailer field. checkTrailer also refuses fields that frame,
// route or authorize a request: a server that merges trailers into the headers would read a
// different request (RFC 9110, 6.5.1).
func checkTrailer(line []byte) error {
	name, _, err := splitField(line)
	if err != nil {
		return err
	}
	for _, forbidden := range []string{
		fasthttp.HeaderContentLength, fasthttp.HeaderTransferEncoding, fasthttp.HeaderTrailer, fasthttp.HeaderTE,
		fasthttp.HeaderConnection, fasthttp.HeaderUpgrade, fasthttp.HeaderHost, fasthttp.HeaderExpect,
		fasthttp.HeaderAuthorization, fasthttp.HeaderProxyAuthorization, fasthttp.HeaderCookie,
		fasthttp.HeaderContentEncoding, fasthttp.HeaderContentType, fasthttp.HeaderContentRange,
		fasthttp.HeaderIfMatch, fasthttp.HeaderIfNoneMatch, "Idempotency-Key",
	} {
		if fieldIs(name, forbidden) {
			return errMalformed
		}
	}
	return nil
}

func (k *chunks) takeSize(line []byte, maxBody int64) error {
	const maxDigits = 15
	digits, extensions, extended := bytes.Cut(line, []byte{';'})
	if len(digits) == 0 || len(digits) > maxDigits {
		return errMalformed
	}
	k.left = 0
	for _, c := range digits {
		var nibble [1]byte
		if _, err := hex.Decode(nibble[:], []byte{'0', c}); err != nil {
			return errMalformed
		}
		k.left = k.left<<4 | int64(nibble[0])
	}
	for _, c := range extensions {
		if c < ' ' && c != '\t' || c == 0x7f {
			return errMalformed
		}
	}
	if extended {
		k.extensions += 1 + len(extensions)
	}
	k.total += k.left
	switch {
	case k.extensions > maxChunkExtensions:
		return errMalformed
	case k.total > maxBody:
		return fasthttp.ErrBodyTooLarge
	case k.left > 0:
		k.part = chunkData
	default:
		k.part = chunkTrailer
	}
	return nil
}
