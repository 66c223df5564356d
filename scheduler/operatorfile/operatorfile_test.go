package operatorfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

const kind Kind = "rules file"

func TestLines(t *testing.T) {
	var got []string
	for n, words := range Lines([]byte("\ufeffa  b # c\r\n\n# d\n\te#f\ng")) {
		got = append(got, fmt.Sprint(n, words))
		if n == 4 {
			break
		}
	}
	if want := []string{"1 [a b]", "4 [e#f]"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestReadRefuses(t *testing.T) {
	dir := t.TempDir()
	pipe, large, full := filepath.Join(dir, "pipe"), filepath.Join(dir, "large"), filepath.Join(dir, "full")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.WriteFile(large, make([]byte, maxSize+1), 0o600), os.WriteFile(full, make([]byte, maxSize), 0o640)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "none"): "find rules file: ", dir: "the rules file must be a regular file", pipe: "the rules file must be a regular file",
		large: "the rules file is over 1 MiB",
	} {
		if _, err := kind.Read(path); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
	if c, err := kind.Read(full); err != nil || len(c.Text) != maxSize || c.Mode != 0o640 {
		t.Errorf("%d bytes, mode %v, %v", len(c.Text), c.Mode, err)
	}
}

func TestFaultsAreBounded(t *testing.T) {
	faults := kind.Faults()
	if err := faults.Err(); err != nil {
		t.Errorf("no fault, yet %v", err)
	}
	for n := range maxFaults + 2 {
		faults.Add(n, "wrong")
	}
	lines := strings.Split(faults.Err().Error(), "\n")
	if len(lines) != maxFaults+1 || lines[0] != "rules file line 0: wrong" || lines[maxFaults] != "and 2 more faults" {
		t.Errorf("%q", lines)
	}
}

func TestNumbers(t *testing.T) {
	for text, want := range map[string]float64{
		"0.001": 0.001, "1000000": 1e6, "2.5": 2.5, ".5": 0.5, "": 0, "0": 0, "0.0009": 0, "1000000.1": 0, "1e3": 0, "0x10": 0, "-1": 0, "+1": 0, "inf": 0, "NaN": 0, "1_0": 0, "1.2.3": 0,
	} {
		if got := Rate(text); got != want {
			t.Errorf("Rate(%q) = %v, want %v", text, got, want)
		}
	}
	for text, want := range map[string]int{
		"1": 1, "10": 10, "007": 7, "": 0, "0": 0, "11": 0, "-1": 0, "+1": 0, "1.0": 0, "0x1": 0, "99999999999999999999": 0,
	} {
		if got := Whole(text, 10); got != want {
			t.Errorf("Whole(%q, 10) = %v, want %v", text, got, want)
		}
	}
}

// A change counts at the second look that sees it, and once.
func TestLook(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a")
	content, err := kind.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	f := kind.Follow(path, content)
	look := func(want string) {
		t.Helper()
		got := "nothing"
		f.Look(func(c Content, err error) {
			got = string(c.Text)
			if err != nil {
				got = "error"
			}
		})
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	look("nothing")
	write("ab")
	look("nothing")
	write("abc") // the writer goes on
	look("nothing")
	look("abc")
	look("nothing")
	write("ab")
	look("nothing")
	write("abc") // as before
	look("nothing")
	look("nothing")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	look("nothing")
	look("error")
	look("nothing")
	write("abc")
	look("nothing")
	look("abc")
}
