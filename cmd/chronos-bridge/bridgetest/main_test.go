package bridgetest

import (
	"flag"
	"os"
	"testing"
	"time"

	"chronos/cmd/chronos-bridge/bridgetest/broker"
	"chronos/scheduler/verify/heldup"
	"chronos/scheduler/verify/testkit"
)

var (
	// make check runs the short form. The full one, of make faults, is
	// go test -count=1 -v -timeout 30m ./cmd/chronos-bridge/bridgetest -args -faults.full
	faultsFull = flag.Bool("faults.full", false, "1,000 messages a second, longer faults, one scenario at a time")
	faultsKeep = flag.String("faults.keep", "", "folder that gets the bridges' logs")
)

// binary is the bridge, built once for all tests.
var binary string

func TestMain(m *testing.M) {
	os.Exit(heldup.Main(testkit.WithBinary(m, "chronos/cmd/chronos-bridge", &binary), os.Stderr))
}

// plan is the size of a run.
type plan struct {
	full bool
	keep string
}

// either is one of two numbers, for a short and for a full run.
func (p plan) either(short, full int) int {
	if p.full {
		return full
	}
	return short
}

func (p plan) seconds(short, full int) time.Duration {
	return time.Duration(p.either(short, full)) * time.Second
}

// TestBridges has stores and bridges fail under load, on a broker that stays up:
// nothing is lost, altered or early, nothing comes twice without a fault that
// explains it, and nothing is left over.
func TestBridges(t *testing.T) { runAll(t, scenarios()) }

// TestBrokerAway is the same with a broker that is away for a while.
func TestBrokerAway(t *testing.T) { runAll(t, brokerScenarios()) }

// runAll runs scenarios one after another on a broker of their own.
func runAll(t *testing.T, all []*scenario) {
	p := plan{full: *faultsFull, keep: *faultsKeep}
	if !p.full { // what is measured there should have the machine for itself
		t.Parallel()
	}
	testkit.Program(t, "redis-server")
	if p.keep != "" {
		if err := os.MkdirAll(p.keep, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	b := broker.Start(t)
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) { s.run(t, p, b) })
	}
}
