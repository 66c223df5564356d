package main

import (
	"fmt"
	"io"
	"runtime/debug"
)

const usage = `chronos runs a node of the timer service.

  chronos           run a node until SIGTERM or Ctrl-C
  chronos help      this text, and the environment variables
  chronos version   the version that was built

`

// command carries out what isn't running a node, and returns the exit status.
func command(args []string, out, errs io.Writer) int {
	switch args[0] {
	case "help", "-h", "--help", "-help":
		_, _ = fmt.Fprint(out, usage, configTable())
		return 0
	case "version", "--version":
		version := "unknown"
		if info, ok := debug.ReadBuildInfo(); ok {
			version = info.Main.Version + " " + info.GoVersion
		}
		_, _ = fmt.Fprintln(out, "chronos", version)
		return 0
	}
	_, _ = fmt.Fprintf(errs, "chronos: unknown command %q\n\n%s", args[0], usage)
	return 2
}
