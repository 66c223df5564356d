package topology

import (
	"flag"
	"os"
	"testing"

	"chronos/scheduler/verify/testkit"
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(testkit.Main(m, 8)) // every test has several Redis, which must answer in 0.5 s
}
