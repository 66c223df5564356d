package redisstore

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"testing"

	"chronos/internal/heldup"
)

// TestMain runs sixteen tests at once, unless the command line says how many: nearly all
// tests of this package wait for a Redis, and a processor has nothing to do meanwhile.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", "16"); err != nil {
			fmt.Fprintln(os.Stderr, "run more tests at once:", err)
			os.Exit(1)
		}
	}
	debug.SetGCPercent(400) // Lua states are many and small
	os.Exit(heldup.Main(m, os.Stderr))
}
