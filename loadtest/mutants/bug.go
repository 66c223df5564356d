package main

import (
	"slices"
	"strings"
)

// bug is a deliberate bug in the product.
type bug struct {
	Name  string
	What  string // effect of the bug, in a sentence
	Edits []edit
	Hints []hint // tests that notice the bug soon; the first failure ends the search
}

// edit replaces a text of a function. Code may move between files and packages, and the edit still
// applies.
type edit struct {
	// Func is a function or method of Go, as in "retry" or "(*shard).ask", or a local function of a
	// Lua script. The name of a Lua script stands for the text between the functions.
	Func string
	// In tells functions of the same name apart: the end of the path of the folder or script. In
	// may be empty.
	In       string
	Old, New string // Old stands in the function once
}

// hint is a choice of tests.
type hint struct {
	Package string // folder under the root
	Run     string // as -run of go test
	Own     bool   // the test was written because of the bug
}

// bugs are all seeded bugs.
func bugs() []bug {
	return slices.Concat(recordBugs(), overdueBugs(), outcomeBugs(), claimBugs(), callBugs(), firingBugs(), yieldingBugs(), tellingBugs(), writeBugs(), ownerBugs(), sweepBugs(), lossBugs(), edgeBugs(), askedBugs(), patchBugs(), hastenBugs(), listBugs(), overviewBugs())
}

// chosen are the bugs with the given names, separated by commas; all bugs if names is empty.
func chosen(all []bug, names string) (some []bug, unknown []string) {
	if names == "" {
		return all, nil
	}
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(all, func(b bug) bool { return b.Name == name })
		if i < 0 {
			unknown = append(unknown, name)
			continue
		}
		some = append(some, all[i])
	}
	return some, unknown
}

// withoutOwn are the bugs without the tests that were written because of a bug. more is skip,
// extended by these tests.
func withoutOwn(all []bug, skip string) (some []bug, more string) {
	for _, b := range all {
		for _, h := range b.Hints {
			if h.Own {
				skip += "|^" + h.Run + "$"
			}
		}
		b.Hints = slices.DeleteFunc(slices.Clone(b.Hints), func(h hint) bool { return h.Own })
		some = append(some, b)
	}
	return some, skip
}
