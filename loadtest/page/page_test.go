package page

import (
	"os"
	"path/filepath"
	"testing"
)

func TestWriteTableReplacesTheTableAlone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	for _, c := range []struct{ old, want string }{
		{
			"a\n<!-- The table is written by make x. -->\nold\n<!-- End of the table. -->\nb\n",
			"a\n<!-- The table is written by make x. -->\n\n| new |\n\n<!-- End of the table. -->\nb\n",
		},
		{"a\n<!-- The table is written by make y. -->\nold\n<!-- End of the table. -->\n", ""},
		{"a\n<!-- The table is written by make x. -->\nold\n", ""},
	} {
		if err := os.WriteFile(file, []byte(c.old), 0o600); err != nil {
			t.Fatal(err)
		}
		err := WriteTable(file, "make x", "| new |\n")
		got, readErr := os.ReadFile(file)
		if readErr != nil {
			t.Fatal(readErr)
		}
		switch {
		case c.want == "" && (err == nil || string(got) != c.old):
			t.Errorf("%q became %q, %v; want an error and no change", c.old, got, err)
		case c.want != "" && (err != nil || string(got) != c.want):
			t.Errorf("%q became %q, %v; want %q", c.old, got, err, c.want)
		}
	}
}
