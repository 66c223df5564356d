package simtest

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"chronos/lua"
)

// callLog writes the script calls of the shards to a file, one call a line. A line holds the time since the
// start of the run, node>shard, the script, the keys and arguments, and the answer. Heartbeats and shortened
// claims (see fastClaim) are left out. A callLog is safe for concurrent use, and nil writes nothing.
type callLog struct {
	start time.Time
	names map[string]string // by the SHA-1 of a script

	mu   sync.Mutex
	file *os.File
	zip  *gzip.Writer
	out  *bufio.Writer
}

// openCallLog creates the file of a seed in a folder. The caller closes the log.
func openCallLog(t *testing.T, folder string, seed uint64) *callLog {
	t.Helper()
	file, err := os.Create(filepath.Join(folder, fmt.Sprintf("%d.calls.gz", seed)))
	if err != nil {
		t.Fatalf("log of calls: %v", err)
	}
	l := &callLog{start: time.Now(), names: map[string]string{}, file: file}
	for name, source := range lua.Scripts() {
		l.names[shaOf(source)] = name
	}
	for name, source := range lua.ForPartitions() {
		l.names[shaOf(source)] = name
	}
	l.zip, _ = gzip.NewWriterLevel(file, gzip.BestSpeed)
	l.out = bufio.NewWriterSize(l.zip, 1<<20)
	return l
}

func (l *callLog) close(t *testing.T) {
	t.Helper()
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, end := range []func() error{l.out.Flush, l.zip.Close, l.file.Close} {
		if err := end(); err != nil {
			t.Errorf("log of calls: %v", err)
		}
	}
}

// write logs a call. args are the arguments of the EVALSHA, the command's name included.
func (l *callLog) write(node, shard string, args []string, answer []byte) {
	if l == nil || len(args) < 4 {
		return
	}
	name := l.names[args[1]]
	if name == "beat" || name == "" {
		return
	}
	said := strings.NewReplacer("\r\n", " ", "\n", " ").Replace(string(answer))
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = fmt.Fprintf(l.out, "%.6f %s>%s %s %q -> %s\n", time.Since(l.start).Seconds(), node, shard, name, args[3:], said) // close reports a failed write
}
