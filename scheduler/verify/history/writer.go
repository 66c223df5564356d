package history

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// Writer writes a history as JSON lines. It is safe for concurrent use.
type Writer struct {
	mu  sync.Mutex
	buf *bufio.Writer
	err error // the first
}

// NewWriter returns a Writer to w, which the caller closes after Flush.
func NewWriter(w io.Writer) *Writer { return &Writer{buf: bufio.NewWriterSize(w, 1<<16)} }

// Write appends a line; it is buffered. The header must be the first. An invalid event is refused; after an error of the
// underlying writer every call returns that error.
func (w *Writer) Write(e Event) error {
	if err := e.validate(); err != nil {
		return fmt.Errorf("write event: %w", err)
	}
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("write event: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	if _, err := w.buf.Write(append(line, '\n')); err != nil {
		w.err = fmt.Errorf("write event: %w", err)
	}
	return w.err
}

// Flush writes what is buffered.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	if err := w.buf.Flush(); err != nil {
		w.err = fmt.Errorf("flush history: %w", err)
	}
	return w.err
}
