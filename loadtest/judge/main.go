// Command judge reads a history (see package history) from a file, and prints the verdict. The exit status is 1 for a
// violation, 3 if the history proves too little, and 2 if the history could not be read.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"chronos/scheduler/verify/history"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	report, err := judge(args)
	if err == nil {
		err = report.WriteText(stdout)
	}
	switch {
	case err != nil:
		_, _ = fmt.Fprintln(stderr, err)
		return 2
	case report.Verdict == history.VerdictFailed:
		return 1
	case report.Verdict == history.VerdictUnknown:
		return 3
	}
	return 0
}

func judge(args []string) (history.Report, error) {
	if len(args) != 1 {
		return history.Report{}, errors.New("usage: judge FILE, where FILE is a history")
	}
	file, err := os.Open(args[0])
	if err != nil {
		return history.Report{}, fmt.Errorf("read history: %w", err)
	}
	defer func() { _ = file.Close() }() // the file was only read
	h, err := history.ReadAll(file)
	if err != nil {
		return history.Report{}, err
	}
	return history.Check(h), nil
}
