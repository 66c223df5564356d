package operatorfile

import (
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"
)

// maxSize is how many bytes a file may have.
const maxSize = 1 << 20

// Kind names a kind of file in errors, such as "tokens file".
type Kind string

// Content is the text and the mode of a file.
type Content struct {
	Text []byte
	Mode fs.FileMode
}

// Read reads the regular file at path, of at most 1 MiB. Read blocks on the file system.
func (k Kind) Read(path string) (Content, error) {
	info, err := os.Stat(path) // opening a pipe would block
	if err != nil {
		return Content{}, fmt.Errorf("find %s: %w", k, err)
	}
	if !info.Mode().IsRegular() {
		return Content{}, fmt.Errorf("the %s must be a regular file", k)
	}
	file, err := os.Open(path)
	if err != nil {
		return Content{}, fmt.Errorf("open %s: %w", k, err)
	}
	defer func() { _ = file.Close() }() // the file was only read
	text, err := io.ReadAll(io.LimitReader(file, maxSize+1))
	if err != nil {
		return Content{}, fmt.Errorf("read %s: %w", k, err)
	}
	if len(text) > maxSize {
		return Content{}, fmt.Errorf("the %s is over 1 MiB", k)
	}
	return Content{Text: text, Mode: info.Mode()}, nil
}

// Lines yields the number and the words of every line that has words. The first line has the number 1.
func Lines(text []byte) iter.Seq2[int, []string] {
	return func(yield func(int, []string) bool) {
		n := 0
		for line := range strings.SplitSeq(strings.TrimPrefix(string(text), "\ufeff"), "\n") {
			n++
			words := strings.Fields(line)
			if i := slices.IndexFunc(words, func(w string) bool { return w[0] == '#' }); i >= 0 {
				words = words[:i]
			}
			if len(words) > 0 && !yield(n, words) {
				return
			}
		}
	}
}
