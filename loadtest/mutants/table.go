package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"chronos/loadtest/page"
)

// line is the result in a line of text.
func (r *result) line() string {
	seconds := int(r.took.Round(time.Second).Seconds())
	switch {
	case r.err != nil:
		return fmt.Sprintf("%-32s %3d s  %v", r.bug.Name, seconds, r.err)
	case r.own:
		return fmt.Sprintf("%-32s %3d s  %s %s (own)", r.bug.Name, seconds, r.caughtBy.Package, r.caughtBy.Test)
	}
	return fmt.Sprintf("%-32s %3d s  %s %s", r.bug.Name, seconds, r.caughtBy.Package, r.caughtBy.Test)
}

// failures is nil if every bug was noticed.
func failures(results []result) error {
	var errs []error
	for _, r := range results {
		if r.err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", r.bug.Name, r.err))
		}
	}
	return errors.Join(errs...)
}

// table lists the test that noticed each bug.
func table(results []result) string {
	var b strings.Builder
	b.WriteString("| bug | what the bug does | noticed by | seconds |\n|---|---|---|---|\n")
	for _, r := range results {
		own := ""
		if r.own {
			own = " (own)"
		}
		fmt.Fprintf(&b, "| %s | %s | `%s` `%s`%s | %d |\n", r.bug.Name, page.Cell(r.bug.What), r.caughtBy.Package, page.Cell(r.caughtBy.Test), own, int(r.took.Round(time.Second).Seconds()))
	}
	return b.String()
}
