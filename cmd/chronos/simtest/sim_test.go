package simtest

import (
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"chronos/scheduler/verify/history"
)

// options are the flags of the simulation: how runs are drawn from seeds.
type options struct {
	seed    uint64
	seeds   int
	minutes float64
	poll    time.Duration
	every   time.Duration
	kinds   []string
	shards  int
	losses  choice
	still   bool
	quiet   bool
	exact   bool
	apart   bool
	log     bool
	fresh   int
	keep    string
	calls   string
}

// choice is the value of a flag for a property that the seed decides otherwise.
type choice int

const (
	bySeed choice = iota
	allSeeds
	noSeed
)

var flags options // of the command line; unchanged after TestMain

func TestMain(m *testing.M) {
	flag.Uint64Var(&flags.seed, "sim.seed", 0, "run this seed alone, or this one and -sim.seeds - 1 after it; 0 for fixed ones and -sim.fresh fresh ones")
	flag.IntVar(&flags.fresh, "sim.fresh", fresh, "so many seeds that are drawn anew")
	flag.IntVar(&flags.seeds, "sim.seeds", 0, "how many seeds; 0 for one with -sim.seed, else for the fixed and the fresh ones")
	flag.Float64Var(&flags.minutes, "sim.minutes", 6, "virtual minutes of load and faults of each seed")
	flag.DurationVar(&flags.poll, "sim.poll", 0, "poll interval of the nodes, whose lease grace is at least five times as long; 0 for 1 s, 300 ms for three seeds in ten, and production's for one")
	flag.DurationVar(&flags.every, "sim.every", 10*time.Second, "average time between two faults")
	flag.Func("sim.kinds", "kinds of faults, separated by commas; all if not given", func(list string) error {
		flags.kinds = strings.Split(list, ",")
		return nil
	})
	flag.IntVar(&flags.shards, "sim.shards", 0, "so many shards at the start; 0 for 1 to 3, by the seed")
	flag.BoolFunc("sim.losses", "shards lose data, too; =false for never; else the seed says", func(text string) error {
		all, err := strconv.ParseBool(text)
		if flags.losses = noSeed; all {
			flags.losses = allSeeds
		}
		return err
	})
	flag.BoolVar(&flags.still, "sim.still", false, "the topology doesn't change")
	flag.BoolVar(&flags.quiet, "sim.quiet", false, "no faults but changes of the topology")
	flag.BoolVar(&flags.exact, "sim.exact", false, "run the scripts of claims that find nothing, too: several times slower")
	flag.BoolVar(&flags.apart, "sim.apart", false, "a create with an idempotency key is repeated through another node, too: known to fail where links are cut; see createOnce")
	flag.BoolVar(&flags.log, "sim.log", false, "show the nodes' logs and the schedule")
	flag.StringVar(&flags.calls, "sim.calls", "", "folder for a log of the script calls of each seed")
	flag.StringVar(&flags.keep, "sim.history", "", "folder for the history of each seed")
	flag.Parse()
	debug.SetGCPercent(400) // Lua states are many and small
	logging.Disable()       // all failures are intended
	os.Exit(m.Run())
}

// repeat is the command that runs a seed again.
func (o options) repeat(seed uint64) string {
	command := fmt.Sprintf("go test ./cmd/chronos/simtest -run '^TestSim$' -count=1 -v -sim.seed=%d -sim.minutes=%g -sim.every=%v", seed, o.minutes, o.every)
	if o.poll > 0 {
		command += fmt.Sprintf(" -sim.poll=%v", o.poll)
	}
	if o.losses != bySeed {
		command += fmt.Sprintf(" -sim.losses=%t", o.losses == allSeeds)
	}
	if len(o.kinds) > 0 {
		command += " -sim.kinds=" + strings.Join(o.kinds, ",")
	}
	if o.shards > 0 {
		command += fmt.Sprintf(" -sim.shards=%d", o.shards)
	}
	for name, set := range map[string]bool{"still": o.still, "quiet": o.quiet, "exact": o.exact, "apart": o.apart} {
		if set {
			command += " -sim." + name
		}
	}
	return command
}

// chosen returns the seeds to run.
func (o options) chosen() []uint64 {
	var all []uint64
	count := o.seeds
	if o.seed != 0 {
		for i := range max(count, 1) {
			all = append(all, o.seed+uint64(i))
		}
		return all
	}
	if count == 0 {
		count = fixed + o.fresh
	}
	for i := range count {
		seed := uint64(i + 1)
		if i >= fixed {
			seed = 1000 + rand.Uint64N(1_000_000_000)
		}
		all = append(all, seed)
	}
	return all
}

// TestSim runs whole clusters in virtual time, with faults, and judges the histories. The same seed has the
// same setting, schedule and requests. The turns of goroutines differ from run to run.
func TestSim(t *testing.T) {
	all := newCampaign()
	t.Cleanup(func() { all.judge(t) }) // when all seeds have ended
	for i, seed := range flags.chosen() {
		o := flags
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			if i >= fixed && o.seed == 0 {
				t.Logf("fresh seed %d", seed)
			}
			s := draw(seed, time.Duration(o.minutes*float64(time.Minute)), o)
			defer func() { // runs even if the bubble has ended the test
				if t.Failed() {
					t.Logf("repeat with: %s", o.repeat(seed))
					for _, f := range s.faults {
						t.Log(f)
					}
				}
			}()
			var h *history.History
			var wrong []string
			synctest.Test(t, func(t *testing.T) { h, wrong = simulate(t, s, o) })
			for _, each := range wrong {
				t.Errorf("topology: %s", each)
			}
			verdict(t, s, h, o, all)
		})
	}
}

// simulate plays one run, and returns the history and the faults found in the topology. Call simulate in a
// bubble.
func simulate(t *testing.T, s setting, o options) (h *history.History, wrong []string) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	if o.log {
		log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	c := newCluster(t, s, o, slog.New(alarmed{log.Handler(), t}))
	h = c.play()
	took := c.journal.now()
	c.close()
	all := c.counts()
	t.Logf("%s, %d nodes, %d shards, losses %t, polls every %v, %v: %d operations, %d callbacks, %d faults, %d commands, %d script calls of which %d were run",
		s.mode, s.nodes, s.shards, s.losses, s.timing.poll, took.Round(time.Second), len(h.Operations), len(h.Callbacks), len(h.Faults),
		all.commands, all.scripts, all.scripts-all.shortened)
	for _, fault := range c.receiver.Faults() {
		t.Errorf("receiver: %s", fault)
	}
	return h, c.ledger.judge()
}
