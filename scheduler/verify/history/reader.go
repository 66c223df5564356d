package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Reader reads a history line by line. A Reader is for one goroutine.
type Reader struct {
	in   *bufio.Reader
	line int
}

// NewReader returns a Reader from r.
func NewReader(r io.Reader) *Reader { return &Reader{in: bufio.NewReaderSize(r, 1<<16)} }

// Next returns the next event; io.EOF after the last event. Any other error names the line: the line is no JSON
// object, has unknown or invalid fields, or does not end.
func (r *Reader) Next() (Event, error) {
	line, err := r.in.ReadBytes('\n')
	if errors.Is(err, io.EOF) && len(line) == 0 {
		return Event{}, io.EOF
	}
	r.line++
	if errors.Is(err, io.EOF) {
		return Event{}, fmt.Errorf("read line %d: %w", r.line, io.ErrUnexpectedEOF)
	}
	if err != nil {
		return Event{}, fmt.Errorf("read line %d: %w", r.line, err)
	}
	e, err := parse(line)
	if err != nil {
		return Event{}, fmt.Errorf("read line %d: %w", r.line, err)
	}
	return e, nil
}

func parse(line []byte) (e Event, err error) {
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&e); errors.Is(err, io.EOF) {
		return e, errors.New("it is empty")
	} else if err != nil {
		return e, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return e, errors.New("something follows the event")
	}
	return e, e.validate()
}

// ReadAll reads a whole history. ReadAll returns the errors of Reader.Next. A header that is missing, not first or
// repeated is an error, and so is an end that is missing or repeated.
func ReadAll(r io.Reader) (History, error) {
	var h History
	reader := NewReader(r)
	for {
		e, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return h, err
		}
		if err := h.add(&e, reader.line == 1); err != nil {
			return h, fmt.Errorf("read line %d: %w", reader.line, err)
		}
	}
	if h.End == nil {
		return h, errors.New("read history: it has no end")
	}
	return h, nil
}
