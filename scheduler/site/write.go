package site

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"chronos/scheduler/replica"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

// maxRenewals is how often a write gets a newer version because another site has a newer one.
const maxRenewals = 3

// Write carries out one wish at all sites.
func (s *Sites) Write(ctx context.Context, w replica.Wish) (timer.Receipt, error) {
	one := s.WriteEach(ctx, []replica.Wish{w})[0]
	return one.Receipt, one.Err
}

// WriteEach carries out wishes together at all sites, and answers every wish separately. The own site becomes the
// home of the versions. A write waits for other sites for a while (SitePatience); whatever another site has not confirmed by then
// is marked at the owners of the own site before the answer (rule "mark before the answer").
func (s *Sites) WriteEach(ctx context.Context, wishes []replica.Wish) []replica.Answer {
	others := s.all()
	if len(others) == 0 {
		return s.own.Copies.WriteEach(ctx, wishes)
	}
	answers := make([]replica.Answer, len(wishes))
	if err := s.Ready(); err != nil {
		for i := range answers {
			answers[i].Err = err
		}
		return answers
	}
	open := make([]int, len(wishes))
	for i := range wishes {
		open[i] = i
		if wishes[i].Timer != nil {
			wishes[i].Site = s.ownName()
		}
	}
	for try := 0; len(open) > 0; try++ {
		batch := make([]replica.Wish, len(open))
		for n, i := range open {
			batch[n] = wishes[i]
		}
		var again []int
		last := try == maxRenewals || ctx.Err() != nil
		for n, answer := range s.writeOnce(ctx, others, batch, last) {
			i := open[n]
			answers[i] = answer.Answer
			if answer.newer && wishes[i].Humble {
				answers[i] = replica.Answer{Err: timer.ErrSuperseded}
				continue
			}
			if answer.newer && !last {
				wishes[i].Version = s.own.Shards.NextVersion()
				again = append(again, i)
			}
		}
		open = again
	}
	return answers
}

// written is the answer of all sites to a wish.
type written struct {
	replica.Answer
	newer  bool     // another site has a newer version
	untold []string // sites that have not confirmed the write
}

// writeOnce writes to the own site, and then to all other sites that can be reached, at the same time. A write that the own site has not taken goes
// nowhere: no site has a timer that no client was told of. After the last try a write is marked that is older than another
// site's.
func (s *Sites) writeOnce(ctx context.Context, others map[string]*Other, wishes []replica.Wish, last bool) []written {
	begun := time.Now()
	all := make([]written, len(wishes))
	var taken []replica.Wish
	var of []*written
	for i, answer := range s.own.Copies.WriteEach(ctx, wishes) {
		all[i].Answer = answer
		if answer.Err != nil {
			continue
		}
		all[i].Receipt.Sites, all[i].Receipt.AllSites = 1, 1+len(others)
		w := wishes[i]
		w.Version, w.Humble = answer.Receipt.Version, true
		taken, of = append(taken, w), append(of, &all[i])
	}
	if len(taken) == 0 {
		return all
	}
	heard, asked := make(chan told, len(others)), 0
	untold := make(map[string]bool, len(others))
	for name, other := range others {
		untold[name] = true
		if !other.reached() {
			continue
		}
		asked++
		s.underWay.Go(func() { // ends within AnswerLimit, which Keeper.WriteEach keeps
			heard <- told{name, other.Copies.WriteEach(context.WithoutCancel(ctx), taken)}
		})
	}
	patience := time.NewTimer(min(s.config.SitePatience, timing.AnswerLimit-time.Since(begun)))
	defer patience.Stop()
	for waits := true; waits && asked > 0; {
		select {
		case t := <-heard:
			delete(untold, t.site)
			s.takeAnswers(of, t.site, taken, t.answers)
			asked--
		case <-patience.C:
			waits = false
		}
	}
	for name := range untold {
		s.takeAnswers(of, name, taken, nil)
	}
	s.mark(ctx, of, last)
	if asked > 0 {
		s.underWay.Go(func() { s.takeLate(taken, heard, asked) })
	}
	return all
}

// told are the answers of another site.
type told struct {
	site    string
	answers []replica.Answer
}

// takeLate ends the marks of writes that other sites confirm after the answer to the client: the marks of slow answers would
// take the homes out of touch. What is left is told by the first node of the partition.
func (s *Sites) takeLate(wishes []replica.Wish, heard <-chan told, sites int) {
	ctx, cancel := s.config.Awake.WithTimeout(context.Background(), 2*timing.AnswerLimit)
	defer cancel()
	for range sites {
		select {
		case t := <-heard:
			s.confirm(ctx, wishes, &t)
		case <-ctx.Done():
			return
		}
	}
}

// confirm ends the marks of the writes that a site has confirmed.
func (s *Sites) confirm(ctx context.Context, wishes []replica.Wish, t *told) {
	ends := map[string][]store.ToldMark{}
	for i := range wishes {
		w, answer := &wishes[i], &t.answers[i]
		if answer.Err != nil || answer.Receipt.Unreached > 0 {
			continue
		}
		for _, p := range s.own.Shards.Homes(w.ID.WithoutHint()) {
			ends[p.Shard.Name] = append(ends[p.Shard.Name], store.ToldMark{Mark: store.Mark{Site: t.site, Key: w.ID.Key}, State: w.State()})
		}
	}
	for owner, marks := range ends {
		if err := s.own.Shards.Store.Unmark(ctx, owner, marks); err != nil {
			s.config.Log.Debug("marks could not be ended", "shard", owner, "err", err)
		}
	}
}

// takeAnswers takes in the answers of another site; nil for no answer in time.
func (s *Sites) takeAnswers(all []*written, site string, wishes []replica.Wish, answers []replica.Answer) {
	for i, a := range all {
		if answers != nil {
			there := &answers[i]
			a.Receipt.Copies += there.Receipt.Copies
			a.Receipt.InFlight = a.Receipt.InFlight || there.Receipt.InFlight
			a.newer = a.newer || errors.Is(there.Err, timer.ErrSuperseded)
			if there.Err == nil && there.Receipt.Unreached == 0 {
				a.Receipt.Sites++
				continue
			}
			a.Receipt.Unreached += there.Receipt.Unreached
		}
		a.untold = append(a.untold, site)
		a.Receipt.InFlight = a.Receipt.InFlight || !wishes[i].Fresh // an earlier version may be at home there
	}
}

// mark marks the timers of which other sites have not been told, on the owners of the own site.
func (s *Sites) mark(ctx context.Context, all []*written, last bool) {
	marks := map[string][]store.Mark{}
	of := map[string][]int{}
	for i, a := range all {
		if a.newer && !last || len(a.untold) == 0 {
			continue
		}
		for _, site := range a.untold {
			add(s.metrics.unconfirmed, site, 1)
		}
		id := a.Receipt.ID
		for _, p := range s.own.Shards.Homes(id.WithoutHint()) {
			for _, site := range a.untold {
				marks[p.Shard.Name] = append(marks[p.Shard.Name], store.Mark{Site: site, Key: id.Key})
			}
			of[p.Shard.Name] = append(of[p.Shard.Name], i)
		}
	}
	if len(marks) == 0 {
		return
	}
	bounded, cancel := s.config.Awake.WithTimeout(context.WithoutCancel(ctx), timing.RoundPatience)
	defer cancel()
	var mu sync.Mutex
	marked := make([]bool, len(all))
	var asks sync.WaitGroup
	for name, wanted := range marks {
		asks.Go(func() {
			if err := s.own.Shards.Store.Mark(bounded, name, wanted); err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for _, i := range of[name] {
				marked[i] = true
			}
		})
	}
	asks.Wait()
	for i, a := range all {
		if (!a.newer || last) && len(a.untold) > 0 && !marked[i] {
			a.Answer = replica.Answer{Err: fmt.Errorf("%w: site %s was not told, and no mark could be left", timer.ErrUnavailable, a.untold[0])}
		}
	}
}
