package environment

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTableOf(t *testing.T) {
	t.Parallel()
	for binary, c := range map[string]struct {
		table string
		want  []string
	}{
		"node": {TableOf[Node](), []string{
			"| `CHRONOS_HOLD`               | `3.5s`           | longest a node keeps a timer it is firing before others take it over; a duration from 3s to 1m, such as 3.5s |",
		}},
		"bridge": {TableOf[Bridge](), []string{
			"| `CHRONOS_KAFKA_INPUT`         | required         | topic that messages come from |",
			"| `CHRONOS_KAFKA_CA_FILE`       | unset            | PEM file of the authorities that the brokers' certificates must come from; unset trusts those that the system trusts |",
			"| `CHRONOS_KAFKA_ADVANCE`       | `auto`           | how long before its deadline a message is published: auto, the median of the way to the output as the bridge measures that, at most 50ms; or a duration from 0s to 10s, such as 80ms, where 0s is never early |",
			"| `CHRONOS_LOG_FORMAT`          | `text`           | format of the log on standard error; one of text, json |",
		}},
	} {
		lines := strings.Split(strings.TrimSuffix(c.table, "\n"), "\n")
		settings := allBinaries()[binary]
		if len(lines) != len(settings)+2 {
			t.Fatalf("%s: %d lines for %d variables:\n%s", binary, len(lines), len(settings), c.table)
		}
		for i, s := range settings {
			row := lines[i+2]
			if !strings.HasPrefix(row, "| `"+s.name+"` ") || !strings.Contains(row, s.field.Tag.Get("about")) || !strings.Contains(row, s.preset) {
				t.Errorf("%s: row %d does not describe %s: %s", binary, i, s.name, row)
			}
			if strings.Count(row, "|") != 4 {
				t.Errorf("%s: row %d has not three cells: %s", binary, i, row)
			}
		}
		for _, want := range c.want {
			if !strings.Contains(c.table, want) {
				t.Errorf("%s: there is no line\n%s\nin\n%s", binary, want, c.table)
			}
		}
	}
}

// TestPageTellsTheConfiguration: the tables of the page are the tables that the programs
// show. A comment with the program's command precedes every table.
func TestPageTellsTheConfiguration(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	for command, table := range map[string]string{"chronos config variables": TableOf[Node](), "chronos-bridge help": TableOf[Bridge]()} {
		_, rest, begins := strings.Cut(string(page), "<!-- configuration: "+command+" -->\n")
		told, _, ends := strings.Cut(rest, "<!-- /configuration -->")
		if !begins || !ends {
			t.Errorf("the page has no configuration between the two comments of `%s`", command)
			continue
		}
		if diff := cmp.Diff(strings.TrimSpace(table), strings.TrimSpace(told)); diff != "" {
			t.Errorf("the page's table isn't that of `%s` (-program +page):\n%s", command, diff)
		}
	}
}
