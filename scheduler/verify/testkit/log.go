// Package testkit has tools for the tests of several packages: a log for reading while others
// write, a wait for a condition, child processes, and a redis-server.
package testkit

import (
	"bytes"
	"io"
	"strings"
	"sync"
)

// Log keeps all text that is written to the Log. The zero value is ready. A Log is safe for
// concurrent use.
type Log struct {
	To io.Writer // gets all text, too; may be nil

	mu   sync.Mutex
	text bytes.Buffer
}

// Write adds to the log.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p)
	if l.To != nil {
		return l.To.Write(p)
	}
	return len(p), nil
}

// String is all of the log.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Take empties the log and returns its lines.
func (l *Log) Take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.text.Reset()
	return lines(l.text.String())
}

// Count is how many lines contain a text.
func (l *Log) Count(part string) (n int) {
	for line := range strings.Lines(l.String()) {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n
}

// Tail is the last lines, n at most.
func (l *Log) Tail(n int) string {
	all := lines(l.String())
	return strings.Join(all[max(0, len(all)-n):], "\n")
}

func lines(text string) []string { return strings.Split(strings.TrimSpace(text), "\n") }
