package redisstore

import (
	"strconv"
	"testing"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// Beyond MaxMarks a partition has one mark for all. The mark stays until all timers were told since the last timer
// without a mark of its own.
func TestMoreMarksThanAPartitionKeeps(t *testing.T) {
	t.Parallel()
	s := openStore(t, "node", "http", startRedis(t))
	partition := partitionOf("0")
	mark := func(from, n int) (marks []store.Mark) {
		t.Helper()
		for i := from; len(marks) < n; i++ {
			if key := strconv.Itoa(i); partitionOf(key) == partition {
				marks = append(marks, store.Mark{Site: "nyc", Key: key})
			}
		}
		if err := s.Mark(t.Context(), "a", marks); err != nil {
			t.Fatal(err)
		}
		return marks
	}
	all := func() (is bool, others int) {
		t.Helper()
		found, err := s.Marks(t.Context(), "a", partition, "nyc", store.MaxMarks+10)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range found {
			is = is || m.All
			if m.All && m.Partition != partition {
				t.Errorf("a mark of partition %d, want %d", m.Partition, partition)
			}
		}
		return is, len(found)
	}
	end := func(marks ...store.Mark) {
		t.Helper()
		told := make([]store.ToldMark, len(marks))
		for i := range marks {
			told[i] = store.ToldMark{Mark: marks[i], State: timer.State{}}
		}
		if err := s.Unmark(t.Context(), "a", told); err != nil {
			t.Fatal(err)
		}
	}
	first := mark(0, store.MaxMarks)
	if is, n := all(); is || n != store.MaxMarks {
		t.Fatalf("%d marks, one for all: %t", n, is)
	}
	mark(10_000_000, 3)
	if is, n := all(); !is || n != store.MaxMarks+1 {
		t.Fatalf("%d marks, one for all: %t; want one more mark, for all", n, is)
	}
	forAll := store.Mark{Site: "nyc", All: true, Partition: partition}
	mark(20_000_000, 1)
	end(forAll)
	if is, _ := all(); !is {
		t.Fatal("the mark for all has gone, though another timer came")
	}
	end(forAll)
	end(first...)
	if is, n := all(); is || n != 0 {
		t.Errorf("%d marks are left, one for all: %t", n, is)
	}
}
