package shard

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

const (
	surveyInterval = 5 * timing.BeatInterval
	// lackingLook is how often a node looks whether the node still reaches a shard that is not up.
	// The node announces a change at once, and then itself every two looks for NodeLife, to hear
	// soon whether other nodes have noticed the change, too.
	lackingLook = 100 * time.Millisecond
	// giveUpInterval is how often a node tries to have a shard given up.
	giveUpInterval = 10 * time.Second
)

// Watch announces this node on the shard every second. When the shards change that the node lacks,
// Watch announces the change at once, and then the node more often for a while. Watch also learns
// which nodes are alive, and now and then surveys the shard. Watch returns when ctx ends.
func (sh *Shard) Watch(ctx context.Context) {
	wake := time.NewTimer(0)
	defer wake.Stop()
	var told []string
	var next, survey, changed time.Time
	for {
		now, lacks, first := time.Now(), sh.r.lacking(), next.IsZero()
		if !slices.Equal(lacks, told) {
			told, changed, next = lacks, now, now
		}
		if !now.Before(next) {
			sh.beat(ctx, lacks)
			switch {
			case first:
				next = now.Add(1 + rand.N(timing.BeatInterval)) // beats that begin together must spread out
			case now.Sub(changed) < timing.NodeLife:
				next = now.Add(2 * lackingLook)
			default:
				next = now.Add(timing.BeatInterval)
			}
		}
		if !now.Before(survey) {
			sh.survey(ctx)
			survey = now.Add(surveyInterval)
		}
		wait := time.Until(next)
		if sh.r.failing() {
			wait = min(wait, lackingLook)
		}
		wake.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-wake.C:
		}
	}
}

// Visit learns of the nodes and the clocks of another site by the shard each second, and tells the site of this node's
// clock, until ctx ends.
func (sh *Shard) Visit(ctx context.Context) {
	ticker := time.NewTicker(1 + rand.N(timing.BeatInterval)) // shards that are visited together must spread out
	defer ticker.Stop()
	for {
		sh.visit(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			ticker.Reset(timing.BeatInterval)
		}
	}
}

func (sh *Shard) visit(ctx context.Context) {
	bounded, cancel := sh.r.config.Awake.WithTimeout(ctx, timing.BeatInterval)
	defer cancel()
	began := sh.Answers.Begin()
	said, err := sh.r.Store.Beat(bounded, sh.Name, store.Announcement{Clock: sh.r.config.Wall(), Format: timer.LastFormat, Guest: true})
	sh.Answers.Heard(began, err)
	if err != nil {
		sh.Log.Debug("a shard of another site can't be visited", "err", err)
		return
	}
	sh.heard.Store(&heard{others: sh.r.others(said.Nodes), fastest: said.Fastest, sinceBoot: sh.r.config.SinceBoot()})
}

func (sh *Shard) beat(ctx context.Context, lacks []string) {
	bounded, cancel := sh.r.config.Awake.WithTimeout(ctx, timing.BeatInterval)
	defer cancel()
	began := sh.Answers.Begin()
	own := store.Announcement{Clock: sh.r.config.Wall(), Lacks: lacks, Format: timer.LastFormat}
	if sh.r.Tell != nil {
		own.Text = sh.r.Tell()
	}
	said, err := sh.r.Store.Beat(bounded, sh.Name, own)
	sh.Answers.Heard(began, err)
	if sh.Answers.now()-time.Duration(sh.claimed.Load()) > 2*timing.BeatInterval {
		// With many nodes, a node may have nothing to claim for long.
		sh.note(ctx, err)
	}
	if err != nil {
		sh.Log.Debug("could not announce this node", "err", err)
		sh.unheard.CompareAndSwap(0, int64(sh.Answers.now()))
		sh.giveUp(ctx)
		return // the live nodes stay as they were known
	}
	others := sh.r.others(said.Nodes)
	sh.heard.Store(&heard{others: others, fastest: said.Fastest, sinceBoot: sh.r.config.SinceBoot()})
	sh.Ownership.set(ranks(store.LiveNode{Name: sh.r.config.Node, Lacks: lacks}, others, sh.Name), len(lacks) > 0, time.Now())
	sh.r.config.Destinations.Live(sh.r.live())
	sh.tellDecisions(bounded, sh.r.config.Destinations.Hear(said.Decisions, sh.r.config.Wall()))
}

// maxTold is how many decisions a node tells a shard after a heartbeat.
const maxTold = 128

// tellDecisions tells the shard of decisions about destinations of which the shard has not heard: the
// shard was away, is new, or has lost data.
func (sh *Shard) tellDecisions(ctx context.Context, unheard []store.Decision) {
	if len(unheard) == 0 {
		return
	}
	if _, err := sh.r.Store.Decide(ctx, sh.Name, unheard[:min(len(unheard), maxTold)]); err != nil {
		sh.Log.Debug("could not tell the shard of pauses", "decisions", len(unheard), "err", err)
	}
}

// giveUp gives the shard up if the shard has been away for too long.
func (sh *Shard) giveUp(ctx context.Context) {
	if sh.since(&sh.unheard) < sh.r.config.AwayLimit || sh.r.Store.Lost(sh.Name) || time.Since(sh.gaveUp) < giveUpInterval {
		return
	}
	sh.gaveUp = time.Now()
	if err := sh.r.Store.Lose(ctx, sh.Name); err != nil {
		sh.Log.Debug("the shard can't be given up", "err", err)
		return
	}
	if sh.r.Store.Lost(sh.Name) {
		sh.Log.Error("the shard has been away for too long and is drained: other shards take its place; when it is back, it is swept, and then joins again",
			"away", sh.since(&sh.unheard).Round(time.Second))
	}
}

func (sh *Shard) survey(ctx context.Context) {
	bounded, cancel := sh.r.config.Awake.WithTimeout(ctx, timing.BeatInterval)
	defer cancel()
	found, err := sh.r.Store.Survey(bounded, sh.Name)
	if err != nil {
		// Old figures would say that all is well.
		sh.r.gauges.pending.DeleteLabelValues(sh.Name)
		sh.r.gauges.tombstones.DeleteLabelValues(sh.Name)
		sh.r.gauges.letters.DeleteLabelValues(sh.Name)
		sh.r.gauges.overdue.DeleteLabelValues(sh.Name)
		sh.noteNeglect(&store.Survey{})
		return
	}
	sh.noteNeglect(&found)
	sh.r.gauges.pending.WithLabelValues(sh.Name).Set(float64(found.Pending))
	sh.r.gauges.tombstones.WithLabelValues(sh.Name).Set(float64(found.Tombstones))
	sh.r.gauges.letters.WithLabelValues(sh.Name).Set(float64(found.Letters))
	sh.r.gauges.overdue.WithLabelValues(sh.Name).Set(found.Overdue.Seconds())
}
