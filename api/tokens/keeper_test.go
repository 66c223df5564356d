package tokens

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"chronos/scheduler/operatorfile"
	"chronos/scheduler/verify/testkit"
)

func openKeeper(t *testing.T, cfg KeeperConfig) *Keeper {
	t.Helper()
	k, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// rewrite changes the file in place.
func rewrite(t *testing.T, path string, lines ...string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
}

// runKeeper runs k until the test's bubble ends. runKeeper returns k and a function that takes the
// logged lines.
func runKeeper(t *testing.T, path string) (*Keeper, func() []string) {
	t.Helper()
	out := &testkit.Log{}
	log := slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	k := openKeeper(t, KeeperConfig{Path: path, Log: log})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { k.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	return k, out.Take
}

// twoLooks lets the keeper look at the file twice.
func twoLooks() {
	time.Sleep(2*operatorfile.LookInterval + time.Millisecond)
	synctest.Wait()
}

func expect(t *testing.T, k *Keeper, token Token, want Outcome) {
	t.Helper()
	if got := k.Check(header(token), Read, time.Now()).Outcome; got != want {
		t.Errorf("outcome %v, want %v", got, want)
	}
}

func TestKeeperRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, oldLine := generate(t, "a", Admin)
		next, nextLine := generate(t, "a", Admin)
		path := writeFile(t, oldLine)
		k, logged := runKeeper(t, path)
		expect(t, k, old, OK)
		expect(t, k, next, Unknown)
		rewrite(t, path, oldLine, nextLine)
		twoLooks()
		expect(t, k, old, OK)
		expect(t, k, next, OK)
		rewrite(t, path, nextLine)
		twoLooks()
		expect(t, k, old, Unknown)
		expect(t, k, next, OK)
		twoLooks() // nothing more to say
		want := []string{
			`level=INFO msg="tokens file read" tokens=1`,
			`level=INFO msg="tokens file read" tokens=2`,
			`level=INFO msg="tokens file read" tokens=1`,
		}
		if diff := cmp.Diff(want, logged()); diff != "" {
			t.Error(diff)
		}
	})
}

// A prefix that comes, changes or goes counts for the same token.
func TestKeeperFollowsPrefixes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		token, line := generate(t, "a", Write)
		path := writeFile(t, line)
		k, _ := runKeeper(t, path)
		for _, c := range []struct{ option, want string }{
			{" prefix=a.", "a."}, {" prefix=a.b.", "a.b."}, {" prefix=batch", "a.b."}, {"", ""},
		} {
			rewrite(t, path, line+c.option)
			twoLooks()
			if d := k.Check(header(token), Write, time.Now()); d.Outcome != OK || d.Prefix != c.want {
				t.Errorf("after%s: %+v, want the prefix %q", c.option, d, c.want)
			}
		}
	})
}

// Kubernetes swaps ..data to a new folder; the file's name stays a link into the folder.
func TestKeeperFollowsLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, oldLine := generate(t, "a", Admin)
		next, nextLine := generate(t, "a", Admin)
		dir := t.TempDir()
		stamp := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		for folder, line := range map[string]string{"..1": oldLine, "..2": nextLine} {
			must(os.Mkdir(filepath.Join(dir, folder), 0o700))
			file := filepath.Join(dir, folder, "tokens")
			must(os.WriteFile(file, []byte(line), 0o600))
			must(os.Chtimes(file, stamp, stamp)) // of the same length and time
		}
		must(os.Symlink("..1", filepath.Join(dir, "..data")))
		must(os.Symlink("..data/tokens", filepath.Join(dir, "tokens")))
		k, _ := runKeeper(t, filepath.Join(dir, "tokens"))
		expect(t, k, old, OK)
		must(os.Symlink("..2", filepath.Join(dir, "..new")))
		must(os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data")))
		twoLooks()
		expect(t, k, old, Unknown)
		expect(t, k, next, OK)
	})
}

// A change of the bytes alone counts: same inode, length and times.
func TestKeeperSeesBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, oldLine := generate(t, "a", Admin)
		next, nextLine := generate(t, "a", Admin)
		path := writeFile(t, oldLine)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		k, _ := runKeeper(t, path)
		rewrite(t, path, nextLine)
		if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
			t.Fatal(err)
		}
		twoLooks()
		expect(t, k, old, Unknown)
		expect(t, k, next, OK)
	})
}

// While the file can't be used the tokens stay. Each reason is logged once, and the log has no
// token or hash.
func TestKeeperKeepsTheLastGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		token, line := generate(t, "a", Admin)
		path := writeFile(t, line)
		k, logged := runKeeper(t, path)
		logged()
		const kept = `level=ERROR msg="tokens file can't be used; the tokens read before stay valid" error="`
		for _, c := range []struct {
			about  string
			change func() error
			want   string
		}{
			{"broken", func() error { return os.WriteFile(path, []byte(line+"\nb root "+hash(1)), 0o600) }, kept + `tokens file line 2: ` + faultRoles + `"`},
			{"empty", func() error { return os.Truncate(path, 0) }, kept + errNoTokens.Error() + `"`},
			{"holds the token", func() error { return os.WriteFile(path, []byte("a admin "+token.Reveal()), 0o600) }, kept + `tokens file line 1: ` + faultToken + `"`},
			{"missing", func() error { return os.Remove(path) }, kept + `find tokens file: stat ` + path + `: no such file or directory"`},
			{"a folder", func() error { return os.Mkdir(path, 0o700) }, kept + `the tokens file must be a regular file` + `"`},
			{"as before", func() error { return os.Remove(path) }, kept + `find tokens file: stat ` + path + `: no such file or directory"`},
			{"mended", func() error { return os.WriteFile(path, []byte(line), 0o600) }, `level=INFO msg="tokens file read" tokens=1`},
		} {
			if err := c.change(); err != nil {
				t.Fatal(err)
			}
			for range 10 {
				twoLooks()
				expect(t, k, token, OK)
			}
			if diff := cmp.Diff([]string{c.want}, logged()); diff != "" {
				t.Errorf("%s: %s", c.about, diff)
			}
		}
	})
}

// A half-written file, seen by a single look, never counts.
func TestKeeperWaitsForTheWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, firstLine := generate(t, "a", Admin)
		second, secondLine := generate(t, "b", Admin)
		path := writeFile(t, firstLine+"\n"+secondLine)
		k, logged := runKeeper(t, path)
		logged()
		time.Sleep(time.Millisecond) // off the ticks
		for _, text := range []string{"", firstLine, "b adm", ""} {
			rewrite(t, path, text)
			time.Sleep(operatorfile.LookInterval)
			expect(t, k, first, OK)
			expect(t, k, second, OK)
		}
		rewrite(t, path, firstLine, secondLine, "c read "+hash(1))
		twoLooks()
		expect(t, k, first, OK)
		expect(t, k, second, OK)
		if diff := cmp.Diff([]string{`level=INFO msg="tokens file read" tokens=3`}, logged()); diff != "" {
			t.Error(diff)
		}
	})
}

// A name's used-up rate survives a new file and a new token; a new rate counts from then on.
func TestKeeperKeepsRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, oldLine := generate(t, "a", Admin)
		next, nextLine := generate(t, "a", Admin)
		path := writeFile(t, oldLine+" rate=0.01 burst=5")
		k, _ := runKeeper(t, path)
		for range 5 {
			expect(t, k, old, OK)
		}
		expect(t, k, old, Limited)
		rewrite(t, path, nextLine+" rate=0.01 burst=5")
		twoLooks()
		expect(t, k, next, Limited)
		rewrite(t, path, nextLine+" rate=1 burst=2")
		twoLooks() // takes effect at the end of the second look
		expect(t, k, next, Limited)
		time.Sleep(time.Minute)
		expect(t, k, next, OK)
		expect(t, k, next, OK)
		expect(t, k, next, Limited)
		rewrite(t, path, nextLine)
		twoLooks()
		for range 100 {
			expect(t, k, next, OK)
		}
	})
}

func TestKeeperWarns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, line := generate(t, "a", Write)
		path := writeFile(t, line)
		_, logged := runKeeper(t, path)
		const read, noAdmin = `level=INFO msg="tokens file read" tokens=1`, `level=WARN msg="no token has the role admin"`
		if diff := cmp.Diff([]string{read, noAdmin}, logged()); diff != "" {
			t.Error(diff)
		}
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
		twoLooks()
		twoLooks()
		loose := `level=WARN msg="others may read or change the tokens file (its mode is 0644); set it to 0640 or less"`
		if diff := cmp.Diff([]string{read, noAdmin, loose}, logged()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestOpenRefuses(t *testing.T) {
	for about, path := range map[string]string{"missing": filepath.Join(t.TempDir(), "none"), "wrong": writeFile(t, "a")} {
		if k, err := Open(KeeperConfig{Path: path}); err == nil || k != nil {
			t.Errorf("%s: it was opened", about)
		}
	}
}

// Requests go on while the file changes: a steady token stays valid throughout, its burst is given
// once, and a token that never was in the file never passes.
func TestKeeperUnderLoad(t *testing.T) {
	const workers, changes, burst = 4, 50, 300
	steady, steadyLine := generate(t, "steady", Read)
	other, otherLine := generate(t, "other", Admin)
	stranger, _ := generate(t, "stranger", Admin)
	steadyLine += " rate=0.001 burst=300"
	path := writeFile(t, steadyLine+"\n"+otherLine)
	k := openKeeper(t, KeeperConfig{Path: path})
	stop := make(chan struct{})
	counts := make([]map[Outcome]int, workers)
	var wg sync.WaitGroup
	for w := range workers {
		counts[w] = map[Outcome]int{}
		wg.Go(func() {
			for {
				counts[w][k.Check(header(steady), Read, time.Now()).Outcome]++
				if o := k.Check(header(other), Read, time.Now()).Outcome; o != OK && o != Unknown {
					t.Errorf("the token that comes and goes is %v", o)
				}
				if o := k.Check(header(stranger), Read, time.Now()).Outcome; o != Unknown {
					t.Errorf("the stranger is %v", o)
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for i := range changes {
		rewrite(t, path, append([]string{steadyLine}, [][]string{{otherLine}, nil}[i%2]...)...)
		k.file.Look(k.change)
		k.file.Look(k.change)
	}
	close(stop)
	wg.Wait()
	total := map[Outcome]int{}
	for _, count := range counts {
		for o, n := range count {
			total[o] += n
		}
	}
	if checks := total[OK] + total[Limited]; checks < workers || total[OK] != min(burst, checks) || total[Unknown]+total[Scope]+total[Missing] > 0 {
		t.Errorf("outcomes of the steady token: %v", total)
	}
}
