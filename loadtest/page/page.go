// Package page writes the tables of documents that a command makes.
package page

import (
	"fmt"
	"os"
	"strings"
)

const ends = "<!-- End of the table. -->\n"

// WriteTable replaces the text between the comment that names the command and the comment that
// ends the table. A document has one table of a command.
func WriteTable(file, command, table string) error {
	old, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read document: %w", err)
	}
	begins := "<!-- The table is written by " + command + ". -->\n"
	before, rest, begun := strings.Cut(string(old), begins)
	_, after, ended := strings.Cut(rest, ends)
	if !begun || !ended {
		return fmt.Errorf("%s lacks the comments around the table of %s", file, command)
	}
	text := before + begins + "\n" + table + "\n" + ends + after
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil { //nolint:gosec // everybody reads documents
		return fmt.Errorf("write document: %w", err)
	}
	return nil
}

// Cell escapes a text for a cell of a Markdown table.
func Cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ").Replace(text)
}
