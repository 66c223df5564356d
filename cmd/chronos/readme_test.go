package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestReadmeTellsTheConfiguration: README's table is the one that the program
// reads its environment by.
func TestReadmeTellsTheConfiguration(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, begins := strings.Cut(string(readme), "<!-- configuration: chronos help -->\n")
	table, _, ends := strings.Cut(rest, "<!-- /configuration -->")
	if !begins || !ends {
		t.Fatal("README has no configuration between its two comments")
	}
	if diff := cmp.Diff(strings.TrimSpace(configTable()), strings.TrimSpace(table)); diff != "" {
		t.Errorf("README's table isn't that of `chronos help` (-program +README):\n%s", diff)
	}
}
