package main

import (
	"math"
	"testing"
)

func TestShareFiles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limit uint64
		slots int
		want  files
	}{
		{math.MaxUint64, 4096, files{8192, 4096, 4096}},
		{1 << 20, 4096, files{8192, 4096, 4096}},
		{1 << 20, 100_000, files{8192, 100_000, 4096}},
		{16640, 4096, files{8192, 4096, 4096}},
		{16639, 4096, files{8191, 4096, 4096}},
		{4096, 4096, files{1920, 960, 960}},
		{1024, 4096, files{384, 192, 192}},
		{1024, 8, files{384, 8, 8}},
		{512, 4096, files{128, 64, 64}},
	} {
		got, err := shareFiles(c.limit, c.slots)
		if err != nil || got != c.want {
			t.Errorf("%d files, %d slots: %+v, %v, want %+v", c.limit, c.slots, got, err, c.want)
		}
		if sum := got.connections + got.slots + got.idle + ownFiles; uint64(sum) > c.limit {
			t.Errorf("%d files, %d slots: %d are used", c.limit, c.slots, sum)
		}
	}
	if got, err := shareFiles(511, 4096); err == nil {
		t.Errorf("511 files: %+v, want an error", got)
	}
}
