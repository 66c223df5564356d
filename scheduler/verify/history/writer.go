package history

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// Writer writes a history as JSON lines. A Writer is safe for concurrent use.
type Writer struct {
	mu  sync.Mutex
	buf *bufio.Writer
	err error // the first error
}

// NewWriter returns a Writer to w. The caller closes w after Flush.
func NewWriter(w io.Writer) *Writer { return &Writer{buf: bufio.NewWriterSize(w, 1<<16)} }

// Write appends a line to the buffer. The header must be the first event. Write refuses an invalid event. After an
// error of the underlying writer, every call returns the error.
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

// Flush writes the buffer to the underlying writer.
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
