package topology

import (
	"flag"
	"os"
	"testing"

	"chronos/redisstore/redistest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(redistest.Main(m, 8)) // each of them has several Redis, which must answer in 0.5 s
}
