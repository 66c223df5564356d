package main

import (
	"slices"
	"strings"
)

// bug is one deliberate bug in the product.
type bug struct {
	Name  string
	What  string // the bug does, in one sentence
	Edits []edit
	Hints []hint // tests that notice the bug soon; the first that fails ends the search
}

// edit replaces a text of one function. Code may move between files and packages, and
// the edit still applies.
type edit struct {
	// Func is a function or method of Go, as in "retry" or "(*shard).ask", a local
	// function of a Lua script, or the name of a Lua script, for its text between the
	// functions.
	Func string
	// In tells functions of one name apart: the end of the folder's path, or of the
	// script's. It may be empty.
	In       string
	Old, New string // Old stands in the function once
}

// hint is a choice of tests.
type hint struct {
	Package string // folder under the root
	Run     string // as -run of go test
	Own     bool   // the test was written because of this bug
}

// bugs are all seeded bugs.
func bugs() []bug {
	return slices.Concat(recordBugs(), overdueBugs(), outcomeBugs(), claimBugs(), firingBugs(), yieldingBugs(), tellingBugs(), writeBugs(), ownerBugs(), sweepBugs(), lossBugs(), edgeBugs())
}

// chosen are the bugs with these names, separated by commas; all if names is empty.
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

// withoutOwn are the bugs without the tests that were written because of one, and which tests
// the suite is to leave out then.
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
