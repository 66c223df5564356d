package testkit

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9/logging"

	"chronos/scheduler/verify/heldup"
)

// Main runs the tests of a package that measures hold-ups, atOnce tests at a time. A number on
// the command line takes precedence. Nearly all tests wait for a Redis, and a processor has
// nothing to do meanwhile. The caller has parsed the flags. Main returns the exit status.
func Main(m *testing.M, atOnce int) int {
	logging.Disable() // go-redis would write more than the tests
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", strconv.Itoa(atOnce)); err != nil {
			fmt.Fprintln(os.Stderr, "run more tests at once:", err)
			return 1
		}
	}
	return heldup.Main(m, os.Stderr)
}
