package simtest

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// TestSimSites runs clusters of two sites in virtual time, with faults of the sites, and judges what happened.
func TestSimSites(t *testing.T) {
	seeds, load := flags.chosen(), time.Duration(flags.minutes*float64(time.Minute))
	if flags.seed == 0 && flags.seeds == 0 {
		seeds, load = seeds[fixed:], load/2 // a run of two sites differs each time, whatever the seed
	}
	for _, seed := range seeds {
		o := flags
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			s := drawSites(seed, load)
			defer func() {
				if t.Failed() {
					t.Logf("repeat with: go test ./cmd/chronos/simtest -run '^TestSimSites$' -count=1 -v -sim.seed=%d -sim.minutes=%g", seed, o.minutes)
					for i := range s.faults {
						t.Log(&s.faults[i])
					}
				}
			}()
			synctest.Test(t, func(t *testing.T) {
				log := slog.New(slog.DiscardHandler)
				if o.log {
					log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
				}
				c := newSiteCluster(t, s, o, slog.New(alarmed{log.Handler(), t}))
				c.play()
				c.close()
				acknowledgedN := 0
				for _, op := range c.log.operations {
					if op.outcome == acknowledged {
						acknowledgedN++
					}
				}
				t.Logf("2 sites of %d shards and %d nodes, %v apart: %d writes, %d acknowledged, %d callbacks, %d faults", s.shards, s.nodes, 2*s.far, len(c.log.operations), acknowledgedN, len(c.log.calls), len(s.faults))
				for i, wrong := range c.judgeSites() {
					if i < 20 {
						t.Error(wrong)
					}
				}
			})
		})
	}
}
