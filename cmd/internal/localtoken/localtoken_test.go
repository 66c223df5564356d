package localtoken

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"chronos/api/tokens"
)

// home is an environment without any token files.
func home(t *testing.T) (dir string, environ []string) {
	t.Helper()
	dir = t.TempDir()
	t.Setenv("TMPDIR", t.TempDir())
	return filepath.Join(dir, "chronos"), []string{"XDG_RUNTIME_DIR=" + dir}
}

func at(address string) net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address)) }

func mustMake(t *testing.T, address string, dirs ...Dir) *Token {
	t.Helper()
	made, err := Make(at(address), dirs...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := made.Remove(); err != nil {
			t.Error(err)
		}
	})
	return made
}

func content(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func mode(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().String()
}

func (f Found) opens(made *Token) bool {
	return made.Check([]byte("Bearer "+f.Token), tokens.Admin, time.Now()) == tokens.Decision{Outcome: tokens.OK, Name: Name}
}

func TestTokenFile(t *testing.T) {
	dir, environ := home(t)
	data := t.TempDir()
	made := mustMake(t, "127.0.0.1:7254", DataDir(data), RuntimeDir(environ))
	want := []string{filepath.Join(data, "admin-127.0.0.1-7254.token"), filepath.Join(dir, "admin-127.0.0.1-7254.token")}
	if diff := gocmp.Diff(want, made.Files()); diff != "" {
		t.Errorf("files (-want +have):\n%s", diff)
	}
	for _, path := range want {
		if text := content(t, path); !regexp.MustCompile(`^chr_[\w-]{43}\n$`).MatchString(text) || text != content(t, want[0]) {
			t.Errorf("%s has %d bytes, and no token", path, len(text))
		}
		if got := mode(t, path); got != "-rw-------" {
			t.Errorf("%s has mode %s", path, got)
		}
	}
	if got := mode(t, dir); got != "drwx------" {
		t.Errorf("%s has mode %s", dir, got)
	}
	for header, want := range map[string]tokens.Outcome{"": tokens.Missing, "Bearer chr_" + strings.Repeat("A", 43): tokens.Unknown} {
		if got := made.Check([]byte(header), tokens.Read, time.Now()); got.Outcome != want {
			t.Errorf("%q: %+v, want %s", header, got, want)
		}
	}
	found, err := Find(environ, "http://127.0.0.1:7254")
	if err != nil || !found.opens(made) || found.File != want[1] {
		t.Errorf("found %s, %v", found.File, err)
	}
	for range 2 {
		if err := made.Remove(); err != nil {
			t.Errorf("remove: %v", err)
		}
	}
	for _, of := range []string{data, dir} {
		if left, err := os.ReadDir(of); err != nil || len(left) != 0 {
			t.Errorf("left in %s: %v, %v", of, left, err)
		}
	}
	if found, err := Find(environ, "http://127.0.0.1:7254"); found != (Found{}) || err != nil {
		t.Errorf("found %s, %v", found.File, err)
	}
}

// A killed process leaves its file, and somebody may have put a link in place of the file.
func TestTokenFileReplacesWhatIsThere(t *testing.T) {
	dir, environ := home(t)
	left, err := Make(at("127.0.0.1:7254"), RuntimeDir(environ))
	if err != nil {
		t.Fatal(err)
	}
	second := mustMake(t, "127.0.0.1:7254", RuntimeDir(environ))
	if found, err := Find(environ, "http://127.0.0.1:7254"); err != nil || !found.opens(second) || found.opens(left) {
		t.Errorf("found the token of %s, %v, want that of the process which is alive", found.File, err)
	}
	target := filepath.Join(t.TempDir(), "precious")
	link := filepath.Join(dir, "admin-127.0.0.1-7255.token")
	if err := os.WriteFile(target, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	mustMake(t, "127.0.0.1:7255", RuntimeDir(environ))
	if got := content(t, target); got != "kept" || mode(t, link) != "-rw-------" {
		t.Errorf("behind the link is %q, the file has mode %s", got, mode(t, link))
	}
}

func TestTokenFilesByAddress(t *testing.T) {
	_, environ := home(t)
	made := map[string]*Token{}
	for address, name := range map[string]string{
		"127.0.0.1:1": "admin-127.0.0.1-1.token", "127.0.0.2:1": "admin-127.0.0.2-1.token", "[::1]:2": "admin-::1-2.token",
		"[::]:3": "admin-any-3.token", "0.0.0.0:4": "admin-any-4.token", "[::ffff:127.0.0.1]:5": "admin-127.0.0.1-5.token",
		"192.0.2.1:6": "admin-192.0.2.1-6.token",
	} {
		made[address] = mustMake(t, address, RuntimeDir(environ))
		if got := filepath.Base(made[address].Files()[0]); got != name {
			t.Errorf("%s has file %s, want %s", address, got, name)
		}
	}
	for url, want := range map[string]string{
		"http://127.0.0.1:1": "127.0.0.1:1", "http://localhost:1": "127.0.0.1:1", "https://LOCALHOST.:1": "127.0.0.1:1", "http://127.0.0.2:1": "127.0.0.2:1",
		"http://127.0.0.3:1": "", "http://[::1]:2": "[::1]:2", "http://localhost:2": "[::1]:2", "http://127.0.0.1:2": "",
		"http://127.0.0.1:3": "[::]:3", "http://[::1]:3": "[::]:3", "http://localhost:3/x": "[::]:3", "http://127.9.9.9:4": "0.0.0.0:4", "http://0.0.0.0:4": "0.0.0.0:4",
		"http://[::ffff:127.0.0.1]:5": "[::ffff:127.0.0.1]:5",
		// These may be anybody's addresses: their listeners must not get the token.
		"http://192.0.2.1:6": "", "http://192.0.2.1:3": "", "http://node-1:3": "", "http://localhost.example:3": "", "http://127.0.0.1": "", "http://:3": "", "://": "",
	} {
		found, err := Find(environ, url)
		if err != nil || (want == "") != (found.Token == "") || want != "" && !found.opens(made[want]) {
			t.Errorf("%s finds %q, %v, want the token of %q", url, found.File, err, want)
		}
		if only := netip.MustParseAddrPort(cmp.Or(want, "[::]:1")); !only.Addr().IsUnspecified() && netip.MustParseAddrPort(found.Address) != only {
			t.Errorf("%s is to be asked at %s, want %s", url, found.Address, want)
		}
	}
}

// The listener's own address on a network leads to this machine.
func TestTokenIsFoundByAnAddressOfThisMachine(t *testing.T) {
	_, environ := home(t)
	made := mustMake(t, "[::]:7", RuntimeDir(environ))
	addresses, err := net.InterfaceAddrs()
	if err != nil || len(addresses) == 0 {
		t.Fatal(addresses, err)
	}
	for _, a := range addresses {
		ip := netip.MustParsePrefix(a.String()).Addr()
		url := "http://" + netip.AddrPortFrom(ip, 7).String()
		if found, err := Find(environ, url); err != nil || !found.opens(made) {
			t.Errorf("%s finds %q, %v", url, found.File, err)
		}
	}
}

// A service has no XDG_RUNTIME_DIR, but the user's shell has.
func TestTokenOfAServiceIsFound(t *testing.T) {
	_, environ := home(t)
	for _, of := range [][]string{nil, {"XDG_RUNTIME_DIR="}, {"XDG_RUNTIME_DIR=relative"}} {
		made := mustMake(t, "127.0.0.1:7254", RuntimeDir(of))
		want := filepath.Join(os.TempDir(), fmt.Sprintf("chronos-%d", os.Geteuid()), "admin-127.0.0.1-7254.token")
		for _, shell := range [][]string{of, environ} {
			if found, err := Find(shell, "http://localhost:7254"); err != nil || !found.opens(made) || found.File != want {
				t.Errorf("%q finds %s, %v", shell, found.File, err)
			}
		}
	}
	if got := mode(t, filepath.Join(os.TempDir(), fmt.Sprintf("chronos-%d", os.Geteuid()))); got != "drwx------" {
		t.Errorf("the directory has mode %s", got)
	}
}

// The end of a login session removes the runtime directory, and a cleaner removes old files. The
// token file is back a minute later, and goes with the process all the same.
func TestRemovedTokenFileIsWrittenAgain(t *testing.T) {
	dir, environ := home(t)
	synctest.Test(t, func(t *testing.T) {
		made, err := Make(at("127.0.0.1:7254"), RuntimeDir(environ))
		if err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		ctx, stop := context.WithCancel(t.Context())
		kept := make(chan struct{})
		go func() {
			defer close(kept)
			made.Keep(ctx, slog.New(slog.NewTextHandler(&log, nil)))
		}()
		for _, gone := range []string{made.Files()[0], dir} {
			if err := os.RemoveAll(gone); err != nil {
				t.Fatal(err)
			}
			time.Sleep(keepInterval + time.Second)
			if found, err := Find(environ, "http://127.0.0.1:7254"); err != nil || !found.opens(made) {
				t.Errorf("once %s was removed: found %q, %v", gone, found.File, err)
			}
		}
		if err := os.RemoveAll(filepath.Dir(dir)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * keepInterval)
		stop()
		<-kept
		if lines := strings.Count(log.String(), "can't be written again"); lines != 1 || strings.Contains(log.String(), "chr_") {
			t.Errorf("the log has %d lines, want 1 without the token:\n%s", lines, log.String())
		}
		if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(made.restore(), made.Remove(), made.restore()); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
			t.Errorf("left: %v, %v", left, err)
		}
	})
}

// A file that a killed process left doesn't hide a newer file in another directory.
func TestNewestTokenIsFound(t *testing.T) {
	_, environ := home(t)
	old := mustMake(t, "127.0.0.1:7254", RuntimeDir(environ))
	past := time.Now().Add(-time.Hour)
	if err := os.Chtimes(old.Files()[0], past, past); err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{"127.0.0.1:7254", "[::]:7254"} {
		made := mustMake(t, address, RuntimeDir(nil))
		if found, err := Find(environ, "http://127.0.0.1:7254"); err != nil || !found.opens(made) {
			t.Errorf("finds %s, %v, want %s", found.File, err, made.Files()[0])
		}
		if err := made.Remove(); err != nil {
			t.Error(err)
		}
	}
}

func TestDirectoriesOfOthersAreRefused(t *testing.T) {
	dir, environ := home(t)
	data := t.TempDir()
	foreign := "/" // of root
	if os.Geteuid() == 0 {
		foreign = t.TempDir()
		if err := os.Chown(foreign, 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		about   string
		prepare func() error
		dir     Dir
		want    []string
	}{
		{"others may write", func() error { return os.Chmod(data, 0o720) }, DataDir(data), []string{data, "0720", "CHRONOS_DATA_DIR"}},
		{"another user's", func() error { return nil }, DataDir(foreign), []string{foreign, "another user"}},
		{"none", func() error { return os.RemoveAll(data) }, DataDir(data), []string{data, "no such file"}},
		{"others may look", func() error { return os.Mkdir(dir, 0o755) }, RuntimeDir(environ), []string{dir, "0755", "XDG_RUNTIME_DIR", "CHRONOS_TOKENS_FILE"}}, //nolint:gosec // to be refused
		{"a link", func() error {
			return os.Rename(dir, dir+"2") // and a link to it
		}, RuntimeDir(environ), []string{dir, "link"}},
		{"a file", func() error { return os.WriteFile(filepath.Join(dir, "..", "file"), nil, 0o600) }, Dir{path: filepath.Join(dir, "..", "file"), own: true, closed: 0o077}, []string{"file"}},
		{"no parent", func() error { return nil }, RuntimeDir([]string{"XDG_RUNTIME_DIR=/nowhere"}), []string{"/nowhere/chronos", "XDG_RUNTIME_DIR"}},
	} {
		if err := c.prepare(); err != nil {
			t.Fatal(err)
		}
		if c.about == "a link" {
			if err := os.Chmod(dir+"2", 0o700); err != nil { //nolint:gosec // a directory
				t.Fatal(err)
			}
			if err := os.Symlink(dir+"2", dir); err != nil {
				t.Fatal(err)
			}
		}
		made, err := Make(at("127.0.0.1:7254"), c.dir)
		if made != nil || err == nil || slices.ContainsFunc(c.want, func(part string) bool { return !strings.Contains(err.Error(), part) }) {
			t.Errorf("%s: %v, want %q", c.about, err, c.want)
		}
	}
	if left, err := os.ReadDir(dir + "2"); err != nil || len(left) != 0 {
		t.Errorf("behind the link: %v, %v", left, err)
	}
	// A token behind the link isn't used either: a command would send the token to the listener.
	if err := os.WriteFile(filepath.Join(dir+"2", "admin-127.0.0.1-7254.token"), []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if found, err := Find(environ, "http://127.0.0.1:7254"); found.Token != "" || err == nil || !strings.Contains(err.Error(), "link") {
		t.Errorf("found %s, %v", found.File, err)
	}
}
