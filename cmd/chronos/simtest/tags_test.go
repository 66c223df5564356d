package simtest

import (
	"maps"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chronos/scheduler/timer"
	"chronos/scheduler/verify/record"
)

// tagsOf returns the tags of a client's n-th timer.
func tagsOf(n int) []timer.Tag {
	switch n % 4 {
	case 1:
		return []timer.Tag{{Type: "CALL", Count: 1}}
	case 2:
		return []timer.Tag{{Type: "a b", Count: 2}, {Type: "CALL", Count: n}}
	}
	return nil
}

// tagsOff compares a partition's sums of tags with the tags of its live copies of rank 0, and the number
// under + with the count of tombstones. tagsOff returns the difference, "" for no difference.
func tagsOff(taken snapshot, base string) string {
	want, have := map[string]int{}, map[string]int{}
	for key, text := range taken.hashes[base+":timers"] {
		if key == "#" {
			continue
		}
		found, err := record.Parse(key, text)
		if err != nil || found.Ended { // an unreadable record counts as a tombstone
			want["+"]++
			continue
		}
		tags := record.Word(text, "tags")
		if found.Rank != 0 || tags == "" {
			continue
		}
		for tag := range strings.SplitSeq(tags, ",") {
			name, count, _ := strings.Cut(tag, "=")
			n, err := strconv.Atoi(count)
			if err != nil {
				return key + " has the tag " + tag
			}
			want[name] += n
		}
	}
	for name, sum := range taken.hashes[base+":tags"] {
		n, err := strconv.Atoi(sum)
		if err != nil || n < 1 {
			return name + " is " + sum
		}
		have[name] = n
	}
	if maps.Equal(want, have) {
		return ""
	}
	return cmp.Diff(want, have)
}

func TestTagsOffBites(t *testing.T) {
	written := func(rank, tags, body string) string {
		state := "1T"
		if body != "" {
			state, body = "1L", " "+body
		}
		if tags != "" {
			tags = " tags=" + tags
		}
		return state + " 01a1fb841564b7e9 00000000001 000 0" + rank + " 02 0000000000200 +01795221099878" + tags + body
	}
	const base, body = "chronos:{http.00}", `{"uri":"http://a b/"}`
	for name, c := range map[string]struct {
		rank, tags, body string
		sums             map[string]string
		off              bool
	}{
		"right":                 {"0", "CALL=2,a%20b=1", body, map[string]string{"CALL": "2", "a%20b": "1"}, false},
		"missing":               {"0", "CALL=2", body, nil, true},
		"too much":              {"0", "CALL=2", body, map[string]string{"CALL": "3"}, true},
		"of nothing":            {"0", "", body, map[string]string{"CALL": "1"}, true},
		"none":                  {"0", "", body, nil, false},
		"of a backup":           {"1", "CALL=2", body, map[string]string{"CALL": "2"}, true},
		"a backup, not counted": {"1", "CALL=2", body, nil, false},
		"a tombstone":           {"0", "", "", map[string]string{"+": "1"}, false},
		"of a backup, ended":    {"1", "", "", map[string]string{"+": "1"}, false},
		"tombstone not counted": {"0", "", "", nil, true},
		"two for one":           {"0", "", "", map[string]string{"+": "2"}, true},
		"no tombstone":          {"0", "", body, map[string]string{"+": "1"}, true},
		"zero":                  {"0", "", body, map[string]string{"CALL": "0"}, true},
	} {
		taken := snapshot{hashes: map[string]map[string]string{
			base + ":timers": {"#": "7", "k": written(c.rank, c.tags, c.body)}, base + ":tags": c.sums,
		}}
		if off := tagsOff(taken, base); (off != "") != c.off {
			t.Errorf("%s: %q, want off %t", name, off, c.off)
		}
	}
}
