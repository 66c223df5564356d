package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

const (
	tableBegins = "<!-- The table is written by make mutants. -->\n"
	tableEnds   = "<!-- End of the table. -->\n"
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
		fmt.Fprintf(&b, "| %s | %s | `%s` `%s`%s | %d |\n", r.bug.Name, cell(r.bug.What), r.caughtBy.Package, cell(r.caughtBy.Test), own, int(r.took.Round(time.Second).Seconds()))
	}
	return b.String()
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// writeTable puts the table between the two comments.
func writeTable(file string, results []result) error {
	old, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read document: %w", err)
	}
	before, rest, begins := strings.Cut(string(old), tableBegins)
	_, after, ends := strings.Cut(rest, tableEnds)
	if !begins || !ends {
		return fmt.Errorf("%s lacks the comments around the table", file)
	}
	text := before + tableBegins + "\n" + table(results) + "\n" + tableEnds + after
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil { //nolint:gosec // everybody reads documents
		return fmt.Errorf("write document: %w", err)
	}
	return nil
}
