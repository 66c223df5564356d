package scheduler

import (
	"context"
	"math/rand/v2"
	"time"

	"chronos/scheduler/store"
)

const (
	beatInterval   = time.Second
	surveyInterval = 5 // beats
	// giveUpInterval is how often a node tries to have a shard given up.
	giveUpInterval = 10 * time.Second
)

// watch announces this node on the shard each second, learns which others live,
// and now and then surveys what waits there, until ctx ends.
func (sh *shard) watch(ctx context.Context) {
	ticker := time.NewTicker(1 + rand.N(beatInterval)) // shards and nodes that begin together don't go on in unison
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
			ticker.Reset(beatInterval)
		}
	}
}

func (sh *shard) beat(ctx context.Context) {
	bounded, cancel := sh.r.config.Awake.WithTimeout(ctx, beatInterval)
	defer cancel()
	began := sh.silence.begin()
	nodes, fastest, err := sh.r.store.Beat(bounded, sh.name, sh.r.config.Wall())
	sh.silence.heard(began, err)
	if sh.silence.now()-time.Duration(sh.claimed.Load()) > 2*beatInterval {
		// One of many nodes may have nothing to claim for long.
		sh.note(ctx, err)
	}
	if err != nil {
		sh.log.Debug("could not announce this node", "err", err)
		sh.unheard.CompareAndSwap(0, int64(sh.silence.now()))
		sh.giveUp(ctx)
		return // who lives there is as it was
	}
	sh.fastest.Store(&fastestClock{shows: fastest, sinceBoot: sh.r.config.SinceBoot()})
	sh.ownership.set(ranks(sh.r.config.Node, nodes, sh.name))
	others := false
	for _, node := range nodes {
		others = others || node != sh.r.config.Node
	}
	sh.othersLive.Store(others)
}

// unheardFor is how long ago the shard stopped to answer; 0 if it does, and what it
// missed is known.
func (sh *shard) unheardFor() time.Duration {
	since := sh.unheard.Load()
	if since == 0 {
		return 0
	}
	return max(sh.silence.now()-time.Duration(since), 1)
}

// giveUp has nobody wait any more for a shard that has been away for too long.
func (sh *shard) giveUp(ctx context.Context) {
	if sh.unheardFor() < sh.r.config.AwayLimit || sh.r.store.Lost(sh.name) || time.Since(sh.gaveUp) < giveUpInterval {
		return
	}
	sh.gaveUp = time.Now()
	if err := sh.r.store.Lose(ctx, sh.name); err != nil {
		sh.log.Debug("the shard can't be given up", "err", err)
		return
	}
	if sh.r.store.Lost(sh.name) {
		sh.log.Error("the shard has been away for too long and is drained: other shards take its place; when it is back, it is swept, and then joins again",
			"away", sh.unheardFor().Round(time.Second))
	}
}

func (sh *shard) survey(ctx context.Context) {
	bounded, cancel := sh.r.config.Awake.WithTimeout(ctx, beatInterval)
	defer cancel()
	found, err := sh.r.store.Survey(bounded, sh.name)
	if err != nil {
		// Old figures would say that all is well.
		sh.r.gauges.pending.DeleteLabelValues(sh.name)
		sh.r.gauges.tombstones.DeleteLabelValues(sh.name)
		sh.r.gauges.letters.DeleteLabelValues(sh.name)
		sh.r.gauges.overdue.DeleteLabelValues(sh.name)
		sh.noteNeglect(&store.Survey{})
		return
	}
	sh.noteNeglect(&found)
	sh.r.gauges.pending.WithLabelValues(sh.name).Set(float64(found.Pending))
	sh.r.gauges.tombstones.WithLabelValues(sh.name).Set(float64(found.Tombstones))
	sh.r.gauges.letters.WithLabelValues(sh.name).Set(float64(found.Letters))
	sh.r.gauges.overdue.WithLabelValues(sh.name).Set(found.Overdue.Seconds())
}
