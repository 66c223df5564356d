// Command size counts how large the project is. For the product, the command counts Go statements and non-blank lines
// of Lua, room by room. For the tests and tools that prove the product, the command counts lines. With -base, the
// command also counts a commit, and shows both sizes.
package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/tabwriter"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("size", flag.ContinueOnError)
	root := flags.String("root", "..", "folder of the project")
	base := flags.String("base", "", "commit to compare with; none if empty")
	if err := flags.Parse(args); err != nil {
		return err
	}
	now, err := countTree(*root)
	if err != nil {
		return err
	}
	var before sizes
	if *base != "" {
		if before, err = countCommit(*root, *base); err != nil {
			return err
		}
	}
	return write(out, now, before)
}

// countTree counts the files below a folder.
func countTree(root string) (sizes, error) {
	all := sizes{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case entry.IsDir() || !counted(path):
			return nil
		}
		text, err := os.ReadFile(path) //nolint:gosec // the path comes from the walk
		if err != nil {
			return fmt.Errorf("count %s: %w", path, err)
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return fmt.Errorf("count %s: %w", path, err)
		}
		return all.add(filepath.ToSlash(name), text)
	})
	return all, err
}

// countCommit counts the files of a commit, without a work tree.
func countCommit(root, commit string) (sizes, error) {
	archive := exec.CommandContext(context.Background(), "git", "-C", root, "archive", "--format=tar", commit)
	var trouble bytes.Buffer
	archive.Stderr = &trouble
	packed, err := archive.Output()
	if err != nil {
		return nil, fmt.Errorf("read commit %s: %w: %s", commit, err, strings.TrimSpace(trouble.String()))
	}
	all, files := sizes{}, tar.NewReader(bytes.NewReader(packed))
	for {
		header, err := files.Next()
		switch {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("read commit %s: %w", commit, err)
		case header.Typeflag != tar.TypeReg || !counted(header.Name):
			continue
		}
		text, err := io.ReadAll(files)
		if err != nil {
			return nil, fmt.Errorf("read %s of commit %s: %w", header.Name, commit, err)
		}
		if err := all.add(header.Name, text); err != nil {
			return nil, err
		}
	}
}

// write shows the sizes, beside the earlier sizes if before is given.
func write(out io.Writer, now, before sizes) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, unit string, is, was int) {
		if before == nil {
			_, _ = fmt.Fprintf(table, "%s\t%d\t\t\t %s\n", name, is, unit)
			return
		}
		_, _ = fmt.Fprintf(table, "%s\t%d\t%d\t%+.1f %%\t %s\n", name, is, was, change(is, was), unit)
	}
	for _, r := range rooms() {
		row(r.name, r.unit, now[r.name], before[r.name])
	}
	row("core in all", "statements and lines of Lua", now.core(), before.core())
	row("product in all", "statements and lines of Lua", now.product(), before.product())
	return table.Flush()
}

func change(is, was int) float64 {
	if was == 0 {
		return 0
	}
	return 100 * float64(is-was) / float64(was)
}
