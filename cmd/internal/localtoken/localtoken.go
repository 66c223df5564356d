// Package localtoken gives operators on the machine of a node or bridge a token without
// any set-up. A process without CHRONOS_TOKENS_FILE makes a token at its start, and writes
// the token to a file. Only the user of the process can read the file. Commands of the same
// user find the file by the address of the admin listener.
package localtoken

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"chronos/api/tokens"
)

// Name is the token's name in logs.
const Name = "local"

// keepInterval is how often Keep looks for the files.
const keepInterval = time.Minute

// Token is a token of the role admin that a process made for itself, and the files that
// hold the token. Token is safe for concurrent use.
type Token struct {
	set  *tokens.Set
	text string // of every file

	mu    sync.Mutex
	files []file
}

// file is a file in an open directory, which stays the same if somebody changes the path.
type file struct {
	in   Dir
	dir  *os.Root
	path string // for people
	name string
}

// Make makes a token for the admin listener at address, and writes the token to a file in
// each directory. The caller must call Remove.
func Make(address net.Addr, dirs ...Dir) (_ *Token, err error) {
	token, line, err := tokens.Generate(Name, tokens.Admin, "", rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make token: %w", err)
	}
	t := &Token{text: token.Reveal() + "\n"}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.Remove())
		}
	}()
	if t.set, err = tokens.Parse([]byte(line)); err != nil {
		return nil, fmt.Errorf("make token: %w", err)
	}
	at, err := netip.ParseAddrPort(address.String())
	if err != nil {
		return nil, fmt.Errorf("name token file: %w", err)
	}
	for _, dir := range dirs {
		name := fileName(at.Addr(), at.Port())
		root, err := dir.put(name, t.text)
		if err != nil {
			return nil, err
		}
		t.files = append(t.files, file{dir, root, filepath.Join(dir.path, name), name})
	}
	return t, nil
}

// put writes a file, and returns the directory.
func (d Dir) put(name, text string) (*os.Root, error) {
	root, err := d.openOrMake()
	if err != nil {
		return nil, err
	}
	if err := write(root, name, text); err != nil {
		return nil, errors.Join(fmt.Errorf("write token file in %s: %w", d.path, err), root.Close())
	}
	return root, nil
}

// Keep writes removed files again until ctx ends. The end of a login session removes files,
// and so does a cleaner of temporary files.
func (t *Token) Keep(ctx context.Context, log *slog.Logger) {
	ticker := time.NewTicker(keepInterval)
	defer ticker.Stop()
	for failed := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := t.restore()
		if err != nil && !failed {
			log.Warn("commands don't find the token of the admin listener: its file is gone, and can't be written again", "err", err)
		}
		failed = err != nil
	}
}

// restore writes the missing files again.
func (t *Token) restore() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var errs []error
	for i := range t.files {
		f := &t.files[i]
		if _, err := os.Lstat(f.path); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		root, err := f.in.put(f.name, t.text)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, f.dir.Close())
		f.dir = root
	}
	return errors.Join(errs...)
}

// Check implements api.Authorizer.
func (t *Token) Check(authorization []byte, need tokens.Role, now time.Time) tokens.Decision {
	return t.set.Check(authorization, need, now)
}

// Reveal is the token's text.
func (t *Token) Reveal() string { return strings.TrimSuffix(t.text, "\n") }

// Files are the paths of the files that hold the token.
func (t *Token) Files() (paths []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range t.files {
		paths = append(paths, f.path)
	}
	return paths
}

// Remove removes the files. Remove must be called while the listener is open: afterwards a
// file of the same name may belong to the next process. A second call does nothing, nor
// does a call on nil.
func (t *Token) Remove() error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var errs []error
	for _, f := range t.files {
		if err := f.dir.Remove(f.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove token file: %w", err))
		}
		errs = append(errs, f.dir.Close())
	}
	t.files = nil
	return errors.Join(errs...)
}

// fileName is the name of the file for a listener at an address. All listeners on all
// addresses of the machine share the host name "any".
func fileName(ip netip.Addr, port uint16) string {
	host := ip.Unmap().String()
	if ip.Unmap().IsUnspecified() {
		host = "any"
	}
	return fmt.Sprintf("admin-%s-%d.token", host, port)
}

// write writes a file that only this user can read. A reader sees either the old text or the
// new text. A link of the same name is replaced and not followed.
func write(dir *os.Root, name, text string) error {
	temporary := name + "." + rand.Text()
	f, err := dir.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = dir.Rename(temporary, name)
	}
	if err != nil {
		return errors.Join(err, dir.Remove(temporary))
	}
	return nil
}
