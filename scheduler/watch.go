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
	defer sh.forgetTags()
	for beat := 0; ; beat++ {
		sh.beat(ctx)
		if beat%surveyInterval == 0 {
			sh.survey(ctx)
			sh.surveyTags(ctx)
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
	bounded, cancel := sh.s.config.Awake.WithTimeout(ctx, beatInterval)
	defer cancel()
	began := sh.silence.begin()
	nodes, fastest, err := sh.s.store.Beat(bounded, sh.name, sh.s.config.Wall())
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
	sh.fastest.Store(&fastestClock{shows: fastest, sinceBoot: sh.s.config.SinceBoot()})
	sh.ownership.set(ranks(sh.s.config.Node, nodes, sh.name))
	others := false
	for _, node := range nodes {
		others = others || node != sh.s.config.Node
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
	if sh.unheardFor() < sh.s.config.AwayLimit || sh.s.store.Lost(sh.name) || time.Since(sh.gaveUp) < giveUpInterval {
		return
	}
	sh.gaveUp = time.Now()
	if err := sh.s.store.Lose(ctx, sh.name); err != nil {
		sh.log.Debug("the shard can't be given up", "err", err)
		return
	}
	if sh.s.store.Lost(sh.name) {
		sh.log.Error("the shard has been away for too long and is drained: other shards take its place; when it is back, it is swept, and then joins again",
			"away", sh.unheardFor().Round(time.Second))
	}
}

func (sh *shard) survey(ctx context.Context) {
	bounded, cancel := sh.s.config.Awake.WithTimeout(ctx, beatInterval)
	defer cancel()
	found, err := sh.s.store.Survey(bounded, sh.name)
	if err != nil {
		// Old figures would say that all is well.
		sh.s.metrics.pending.DeleteLabelValues(sh.name)
		sh.s.metrics.tombstones.DeleteLabelValues(sh.name)
		sh.s.metrics.letters.DeleteLabelValues(sh.name)
		sh.s.metrics.overdue.DeleteLabelValues(sh.name)
		sh.noteNeglect(&store.Survey{})
		return
	}
	sh.noteNeglect(&found)
	sh.s.metrics.pending.WithLabelValues(sh.name).Set(float64(found.Pending))
	sh.s.metrics.tombstones.WithLabelValues(sh.name).Set(float64(found.Tombstones))
	sh.s.metrics.letters.WithLabelValues(sh.name).Set(float64(found.Letters))
	sh.s.metrics.overdue.WithLabelValues(sh.name).Set(found.Overdue.Seconds())
}
