package redisstore

import (
	"flag"
	"os"
	"runtime/debug"
	"testing"

	"chronos/scheduler/verify/testkit"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // Lua states are many and small
	flag.Parse()
	os.Exit(testkit.Main(m, 16))
}
