package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// event is a line of `go test -json`.
type event struct {
	Action, Package, Test, Output, ImportPath, FailedBuild string
}

// readEvents returns the first test that failed, or the deepest failed subtest. If the process
// ended within a test, the test failed. A compile error is an error of readEvents.
func readEvents(lines []byte) (first caught, err error) {
	running := map[string][]string{} // tests by package
	var build strings.Builder
	for line := range bytes.Lines(lines) {
		var e event
		if json.Unmarshal(line, &e) != nil {
			continue // a message of the go command
		}
		pkg := strings.TrimPrefix(e.Package, "chronos/")
		switch e.Action {
		case "build-output":
			build.WriteString(e.Output)
		case "build-fail":
			return caught{}, fmt.Errorf("%s does not compile:\n%s", e.ImportPath, build.String())
		case "run":
			running[pkg] = append(running[pkg], e.Test)
		case "fail":
			if e.FailedBuild != "" {
				return caught{}, errors.New(e.FailedBuild + " does not compile")
			}
			if e.Test == "" && first == (caught{}) {
				first = caught{pkg, unfinished(running[pkg])}
			}
			if first == (caught{}) || first.Package == pkg && strings.HasPrefix(e.Test, first.Test+"/") {
				first = caught{pkg, e.Test}
			}
		}
	}
	return first, nil
}

// unfinished is the latest test to begin.
func unfinished(running []string) string {
	if len(running) == 0 {
		return "(before the first test)"
	}
	return running[len(running)-1]
}
