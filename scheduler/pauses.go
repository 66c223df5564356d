package scheduler

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"chronos/scheduler/destinations"
	"chronos/scheduler/shard"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

// maxBusy is how many destinations without a limit and without a pause Destinations lists.
const maxBusy = 100

// Pause has all nodes leave the timers of a destination in Redis until an instant, at most 24 h
// ahead. The nodes hear of the pause within 2 s. Errors: *InvalidError, destinations.ErrFull,
// ErrOvertaken, ErrUnavailable if no shard could be told.
func (s *Scheduler) Pause(ctx context.Context, destination string, until time.Time) (destinations.Pausing, error) {
	const pointer = "/until"
	switch ahead := until.Sub(s.config.Wall()); {
	case ahead <= 0:
		return destinations.Pausing{}, timer.Invalid(pointer, "until-range", "until is over; give an instant up to 24 hours ahead")
	case ahead > timing.MaxPause:
		return destinations.Pausing{}, timer.Invalid(pointer, "until-range", "until is over 24 hours ahead; give an earlier instant, and pause again later")
	}
	return s.decide(ctx, destination, until.Truncate(time.Millisecond).UTC())
}

// Resume ends the pause of a destination, if the destination is paused. Errors as Pause.
func (s *Scheduler) Resume(ctx context.Context, destination string) (destinations.Pausing, error) {
	return s.decide(ctx, destination, time.Time{})
}

// maxDecideRounds is how often a decision is made that other decisions overtake.
const maxDecideRounds = 3

func (s *Scheduler) decide(ctx context.Context, text string, until time.Time) (destinations.Pausing, error) {
	book := s.config.Destinations
	name, err := book.Parse(text)
	if err != nil {
		return destinations.Pausing{}, timer.Invalid("/destination", "destination-malformed", "the destination %v", err)
	}
	d := store.Decision{Destination: name, Until: until}
	for range maxDecideRounds {
		d.Stamp = max(s.shards.NextVersion(), book.Known(name).Stamp+1)
		heard := s.tellAll(ctx, d)
		result := destinations.Pausing{Destination: name, Until: until}
		kept, overtaken, refused := 0, false, false
		for _, h := range heard {
			switch {
			case h.err != nil:
				result.Untold = append(result.Untold, h.shard)
			case h.latest.Stamp == d.Stamp:
				kept++
				book.Hear([]store.Decision{h.latest}, s.config.Wall())
			case h.latest.Stamp == 0:
				refused = true
				result.Untold = append(result.Untold, h.shard)
			default:
				overtaken = true
				book.Hear([]store.Decision{h.latest}, s.config.Wall())
			}
		}
		slices.Sort(result.Untold)
		switch {
		case overtaken:
			continue
		case kept > 0:
			return result, nil
		case refused:
			return destinations.Pausing{}, destinations.ErrFull
		}
		return destinations.Pausing{}, fmt.Errorf("%w: no shard could be told", timer.ErrUnavailable)
	}
	return destinations.Pausing{}, timer.ErrOvertaken
}

// toldShard is a shard's answer to a decision.
type toldShard struct {
	shard  string
	latest store.Decision
	err    error
}

// tellAll tells all shards of a decision at the same time.
func (s *Scheduler) tellAll(ctx context.Context, d store.Decision) []toldShard {
	bounded, cancel := s.config.Awake.WithTimeout(ctx, timing.BeatInterval)
	defer cancel()
	all := s.shards.All()
	answers := make(chan toldShard, len(all))
	var telling sync.WaitGroup
	for _, sh := range all {
		telling.Go(func() { answers <- s.tellOne(bounded, sh, d) })
	}
	telling.Wait()
	close(answers)
	var heard []toldShard
	for h := range answers {
		heard = append(heard, h)
	}
	return heard
}

func (s *Scheduler) tellOne(ctx context.Context, sh *shard.Shard, d store.Decision) toldShard {
	latest, err := s.store.Decide(ctx, sh.Name, []store.Decision{d})
	if err != nil {
		return toldShard{shard: sh.Name, err: err}
	}
	return toldShard{shard: sh.Name, latest: latest[0]}
}

// Destinations lists the destinations with a limit in this node's file or with a pause, and those with
// the most callbacks of this node under way, at most 100, by name.
func (s *Scheduler) Destinations() []destinations.View {
	inHand := s.dispatch.InHand()
	var all, busy []destinations.View
	for _, v := range s.config.Destinations.Views() {
		v.InFlight = inHand[v.Destination].InFlight
		all = append(all, v)
		delete(inHand, v.Destination)
	}
	for name, load := range inHand {
		if load.InFlight > 0 {
			busy = append(busy, destinations.View{Destination: name, InFlight: load.InFlight})
		}
	}
	slices.SortFunc(busy, func(a, b destinations.View) int { return b.InFlight - a.InFlight })
	all = append(all, busy[:min(len(busy), maxBusy)]...)
	slices.SortFunc(all, func(a, b destinations.View) int { return strings.Compare(a.Destination, b.Destination) })
	return all
}
