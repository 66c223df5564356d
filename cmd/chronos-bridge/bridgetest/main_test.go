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
	// make check runs the short form, make faults the full form:
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

// either chooses a number, for a short or for a full run.
func (p plan) either(short, full int) int {
	if p.full {
		return full
	}
	return short
}

func (p plan) seconds(short, full int) time.Duration {
	return time.Duration(p.either(short, full)) * time.Second
}

// TestBridges makes stores and bridges fail under load, on a broker that stays up. No message is
// lost, altered or early. A message comes twice only if a fault explains the second record. At
// the end the stores hold only tombstones.
func TestBridges(t *testing.T) { runAll(t, scenarios()) }

// TestBrokerAway is like TestBridges, with a broker that is away for a while.
func TestBrokerAway(t *testing.T) { runAll(t, brokerScenarios()) }

// runAll runs scenarios one after another on a broker of their own.
func runAll(t *testing.T, all []*scenario) {
	p := plan{full: *faultsFull, keep: *faultsKeep}
	if !p.full { // a full run measures, and should have the machine for itself
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
