package redisstore

import (
	"flag"
	"os"
	"runtime/debug"
	"testing"

	"chronos/redisstore/redistest"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // Lua states are many and small
	flag.Parse()
	os.Exit(redistest.Main(m, 16))
}
