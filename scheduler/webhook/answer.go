package webhook

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httputil"
	"strings"
	"time"

	"chronos/scheduler/dispatch"
)

const (
	maxHead    = 64 << 10 // bytes of an answer's head
	maxBody    = 64 << 10 // bytes of an answer's body that the client reads
	maxInterim = 5        // answers 1xx before the final one
	maxValue   = 64       // bytes of a header's value that can be of interest

	maxRetryAfter = time.Hour
)

var (
	errNotHTTP  = errors.New("answer is not HTTP/1")
	errHeadSize = errors.New("answer head over 64 KiB")
)

// answer is what an attempt needs of a response: the status, the wait, and the end, so that the
// connection can be used again. An unclear end costs the connection, never the status.
type answer struct {
	status     int
	retryAfter string // as sent; "" if not sent, or of no interest
	date       string // as retryAfter

	length    int64 // of the body, -1 if not given
	chunked   bool
	unclear   bool // where the body ends
	old       bool // HTTP/1.0
	close     bool // the receiver closes the connection after the answer
	keepAlive bool // the receiver says that the connection stays open
}

// readAnswer reads the head of the final response.
func readAnswer(r *bufio.Reader) (answer, error) {
	unclear := false
	for range maxInterim + 1 {
		a := answer{length: -1, unclear: unclear}
		if err := a.readHead(r); err != nil {
			return answer{}, err
		}
		if a.status >= 200 || a.status == http.StatusSwitchingProtocols {
			return a, nil
		}
		unclear = a.unclear
	}
	return answer{}, errNotHTTP
}

func (a *answer) readHead(r *bufio.Reader) error {
	left := maxHead
	line, _, err := readLine(r, &left)
	if err != nil {
		return err
	}
	if !a.readStatus(line) {
		return errNotHTTP
	}
	for {
		line, whole, err := readLine(r, &left)
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		if len(line) == 0 {
			return nil
		}
		a.readField(line, whole)
	}
}

// readLine reads a line and returns the line without its end. If the line is longer than the reader's
// buffer, readLine returns only the beginning. The line is valid until the next read. The length is
// taken off left, which must not run out.
func readLine(r *bufio.Reader, left *int) (line []byte, whole bool, err error) {
	line, err = r.ReadSlice('\n')
	*left -= len(line)
	switch {
	case *left < 0:
		return nil, false, errHeadSize
	case errors.Is(err, bufio.ErrBufferFull):
		start := bytes.Clone(line[:maxValue])
		return start, false, skipLine(r, left)
	case errors.Is(err, io.EOF) && len(line) > 0:
		return nil, false, io.ErrUnexpectedEOF
	case err != nil:
		return nil, false, err
	}
	return bytes.TrimSuffix(line[:len(line)-1], []byte("\r")), true, nil
}

func skipLine(r *bufio.Reader, left *int) error {
	for {
		part, err := r.ReadSlice('\n')
		*left -= len(part)
		switch {
		case *left < 0:
			return errHeadSize
		case err == nil:
			return nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}

// readStatus reads "HTTP/1.1 200 OK".
func (a *answer) readStatus(line []byte) bool {
	const code = len("HTTP/1.1 ")
	const end = code + len("200")
	if len(line) < end || string(line[:7]) != "HTTP/1." || line[8] != ' ' || len(line) > end && line[end] != ' ' {
		return false
	}
	minor, ok := number(line[7:8])
	if !ok {
		return false
	}
	status, ok := number(line[code:end])
	a.old, a.status = minor == 0, int(status)
	return ok && status >= 100
}

// readField reads a header field, or the beginning of a field that isn't whole.
func (a *answer) readField(line []byte, whole bool) {
	name, value, ok := bytes.Cut(line, []byte(":"))
	if !ok || !token(name) {
		a.unclear = true
		return
	}
	value = bytes.Trim(value, " \t")
	switch {
	case fold(name, "Content-Length"):
		length, ok := number(value)
		a.unclear = a.unclear || !whole || !ok || a.length >= 0 && a.length != length
		a.length = length
	case fold(name, "Transfer-Encoding"):
		a.unclear = a.unclear || !whole || a.chunked || !fold(value, "chunked")
		a.chunked = true
	case fold(name, "Connection"):
		a.unclear = a.unclear || !whole
		a.readConnection(string(value))
	case a.status < 300 || len(value) > maxValue:
	case a.retryAfter == "" && fold(name, "Retry-After"):
		a.retryAfter = string(value)
	case a.date == "" && fold(name, "Date"):
		a.date = string(value)
	}
}

func (a *answer) readConnection(value string) {
	for option := range strings.SplitSeq(value, ",") {
		switch option = strings.TrimSpace(option); {
		case strings.EqualFold(option, "close"):
			a.close = true
		case strings.EqualFold(option, "keep-alive"):
			a.keepAlive = true
		}
	}
}

// token reports whether RFC 9110 lets b be a field's name.
func token(b []byte) bool {
	for _, c := range b {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-':
		case c >= 0x7f, strings.IndexByte("!#$%&'*+.^_`|~", c) < 0:
			return false
		}
	}
	return len(b) > 0
}

func fold(b []byte, s string) bool { return len(b) == len(s) && bytes.EqualFold(b, []byte(s)) }

// number reads decimal digits and nothing else.
func number(digits []byte) (int64, bool) {
	if len(digits) == 0 || len(digits) > 18 {
		return 0, false
	}
	n := int64(0)
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return n, true
}

// finish reads the body as far as useful, and reports whether the connection can take the next request.
func (a *answer) finish(r *bufio.Reader) bool {
	ended := a.skipBody(r)
	return ended && !a.close && (!a.old || a.keepAlive) && r.Buffered() == 0
}

// skipBody reports whether the body's end was reached, and could be told from the bytes that may
// follow.
func (a *answer) skipBody(r *bufio.Reader) bool {
	switch {
	case a.unclear, a.chunked && (a.length >= 0 || a.old), a.status == http.StatusSwitchingProtocols:
		return false
	case a.status == http.StatusNoContent, a.status == http.StatusNotModified:
		return true
	case a.chunked:
		return skip(httputil.NewChunkedReader(r)) && skipLastLine(r)
	case a.length > maxBody:
		return false
	case a.length >= 0:
		_, err := r.Discard(int(a.length))
		return err == nil
	}
	skip(r)
	return false
}

// skip reports whether r ended within maxBody.
func skip(r io.Reader) bool {
	_, err := io.CopyN(io.Discard, r, maxBody+1)
	return errors.Is(err, io.EOF)
}

// skipLastLine steps over the line end after the last chunk, and reports whether the answer ends there.
// A trailer is rare, and costs the connection.
func skipLastLine(r *bufio.Reader) bool {
	const end = "\r\n"
	if line, err := r.Peek(len(end)); err != nil || string(line) != end {
		return false
	}
	_, err := r.Discard(len(end))
	return err == nil
}

// delivered is the verdict of the answer; now is the local time of the answer's arrival.
func (a *answer) delivered(now time.Time) dispatch.Delivered {
	switch {
	case a.status >= 200 && a.status < 300:
		return dispatch.Delivered{Verdict: dispatch.VerdictDelivered, Class: dispatch.Class2xx, Answer: statusReason(a.status)}
	case a.status == http.StatusGone:
		return dispatch.Delivered{Verdict: dispatch.VerdictGone, Class: dispatch.Class4xx, Reason: statusReason(a.status)}
	}
	return dispatch.Delivered{Class: classOf(a.status), Reason: statusReason(a.status), RetryAfter: a.wait(now)}
}

// wait is the pause that the receiver asks for, 0 without a pause or for a text without sense. A date
// counts from the receiver's own clock, if the receiver tells its time.
func (a *answer) wait(now time.Time) time.Duration {
	if seconds, ok := number([]byte(a.retryAfter)); ok {
		return time.Duration(min(seconds, int64(maxRetryAfter/time.Second))) * time.Second
	}
	until, err := http.ParseTime(a.retryAfter)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(a.date); err == nil {
		now = date
	}
	return min(max(until.Sub(now), 0), maxRetryAfter)
}
