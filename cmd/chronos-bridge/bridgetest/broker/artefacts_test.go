package broker

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// TestMakeOnce: only a single one of many callers makes the folder, and a half-made folder is
// removed.
func TestMakeOnce(t *testing.T) {
	t.Parallel()
	parent := filepath.Join(t.TempDir(), "cache")
	dir := filepath.Join(parent, "made")
	broken := errors.New("broken")
	err := makeOnce(dir, func(into string) error {
		return errors.Join(os.WriteFile(filepath.Join(into, "half"), nil, 0o600), broken)
	})
	if !errors.Is(err, broken) {
		t.Errorf("%v, want what the making ended with", err)
	}
	var made atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			err := makeOnce(dir, func(into string) error {
				made.Add(1)
				return os.WriteFile(filepath.Join(into, "whole"), nil, 0o600)
			})
			if err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(filepath.Join(dir, "whole")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if made.Load() != 1 {
		t.Errorf("made %d times, want once", made.Load())
	}
	entries, err := os.ReadDir(parent)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 2 || entries[0].Name() != "lock" || entries[1].Name() != "made" {
		t.Errorf("the cache folder has %v, want the lock and what was made", entries)
	}
}
