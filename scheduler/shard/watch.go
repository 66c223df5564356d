package shard

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timing"
)

const (
	surveyInterval = 5 // beats
	// giveUpInterval is how often a node tries to have a shard given up.
	giveUpInterval = 10 * time.Second
)

// Watch announces this node on the shard each second, learns which others live,
// and now and then surveys what waits there, until ctx ends.
func (sh *Shard) Watch(ctx context.Context) {
	ticker := time.NewTicker(1 + rand.N(timing.BeatInterval)) // shards and nodes that begin together don't go on in unison
	defer ticker.Stop()
	for beat := 0; ; beat++ {
		sh.beat(ctx)
		if beat%surveyInterval == 0 {
			sh.survey(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			ticker.Reset(timing.BeatInterval)
		}
	}
}

func (sh *Shard) beat(ctx context.Context) {
	bounded, cancel := sh.r.config.Awake.WithTimeout(ctx, timing.BeatInterval)
	defer cancel()
	began := sh.Answers.Begin()
	nodes, fastest, err := sh.r.Store.Beat(bounded, sh.Name, sh.r.config.Wall())
	sh.Answers.Heard(began, err)
	if sh.Answers.now()-time.Duration(sh.claimed.Load()) > 2*timing.BeatInterval {
		// One of many nodes may have nothing to claim for long.
		sh.note(ctx, err)
	}
	if err != nil {
		sh.Log.Debug("could not announce this node", "err", err)
		sh.unheard.CompareAndSwap(0, int64(sh.Answers.now()))
		sh.giveUp(ctx)
		return // who lives there is as it was
	}
	sh.fastest.Store(&fastestClock{shows: fastest, sinceBoot: sh.r.config.SinceBoot()})
	sh.Ownership.set(ranks(sh.r.config.Node, nodes, sh.Name))
	sh.OthersLive.Store(slices.ContainsFunc(nodes, func(node string) bool { return node != sh.r.config.Node }))
}

// UnheardFor is how long ago the shard stopped to answer; 0 if it does, and what it
// missed is known.
func (sh *Shard) UnheardFor() time.Duration {
	since := sh.unheard.Load()
	if since == 0 {
		return 0
	}
	return max(sh.Answers.now()-time.Duration(since), 1)
}

// giveUp has nobody wait any more for a shard that has been away for too long.
func (sh *Shard) giveUp(ctx context.Context) {
	if sh.UnheardFor() < sh.r.config.AwayLimit || sh.r.Store.Lost(sh.Name) || time.Since(sh.gaveUp) < giveUpInterval {
		return
	}
	sh.gaveUp = time.Now()
	if err := sh.r.Store.Lose(ctx, sh.Name); err != nil {
		sh.Log.Debug("the shard can't be given up", "err", err)
		return
	}
	if sh.r.Store.Lost(sh.Name) {
		sh.Log.Error("the shard has been away for too long and is drained: other shards take its place; when it is back, it is swept, and then joins again",
			"away", sh.UnheardFor().Round(time.Second))
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
