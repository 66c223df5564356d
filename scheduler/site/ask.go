package site

import (
	"context"
	"slices"
	"sync"
	"time"

	"chronos/scheduler/replica"
	"chronos/scheduler/shard"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

const (
	// hesitation is how long a copy waits if a site that can be reached gave no answer.
	hesitation = 250 * time.Millisecond
	// patience is how long the answers of other sites are waited for.
	patience = timing.RoundPatience
)

// Question is about a copy that may call back, and that is to be compared with the copies of other sites.
type Question struct {
	Shard   string // of the copy
	Record  *store.Record
	Overdue time.Duration
}

// Verdict says what the copies of other sites mean for a copy. At most one field is set; without any the copy may call
// back.
type Verdict struct {
	Wait    time.Duration // look again after so long
	Adopted bool          // the copies of the own site have a newer state by now
	Over    bool          // the timer is over
}

// view is what one other site says of a timer.
type view struct {
	other *Other
	replica.Seen
}

// Ask compares copies with the copies of other sites: a copy that is not at its home with the sites before its own in the
// timer's order, a copy at its home with all sites. Sites that can't be reached are left out (rule "compare with the other sites").
func (s *Sites) Ask(ctx context.Context, questions []Question) []Verdict {
	views := s.look(ctx, questions)
	s.clearAlike(ctx, questions, views)
	verdicts := make([]Verdict, len(questions))
	for i := range questions {
		verdicts[i] = s.weigh(ctx, &questions[i], views[i])
	}
	return verdicts
}

// clearAlike ends the marks about copies that two sites have alike.
func (s *Sites) clearAlike(ctx context.Context, questions []Question, views [][]view) {
	alike := map[*Other][]*store.Record{}
	for i := range questions {
		for _, v := range views[i] {
			if v.other.touch.anyMark() && v.Newest.Record.State == questions[i].Record.State {
				alike[v.other] = append(alike[v.other], questions[i].Record)
			}
		}
	}
	for o, records := range alike {
		o.clear(ctx, s.wholly(ctx, o, records))
	}
}

// wholly are the marks at another site about the copies that all owners of the own site have.
func (s *Sites) wholly(ctx context.Context, o *Other, records []*store.Record) (marks []store.ToldMark) {
	ids := make([]timer.ID, len(records))
	for i, r := range records {
		ids[i] = r.ID.WithoutHint()
	}
	for i, seen := range s.own.Copies.See(ctx, ids) {
		if seen.Alike && seen.Newest.Record.State == records[i].State {
			marks = append(marks, o.backward(records[i])...)
		}
	}
	return marks
}

// look reads the copies of the sites that the questions ask, each site once.
func (s *Sites) look(ctx context.Context, questions []Question) [][]view {
	bounded, cancel := s.config.Awake.WithTimeout(ctx, patience)
	defer cancel()
	sites, others := s.own.Shards.Store.Sites(), s.all()
	about := map[*Other][]int{}
	for i := range questions {
		r := questions[i].Record
		order := sites.Order(r.ID.Key, r.Site)
		if own := slices.Index(order, sites.Own); own > 0 {
			order = order[:own]
		}
		for _, name := range order {
			if o := others[name]; o != nil && o.reached() {
				about[o] = append(about[o], i)
			}
		}
	}
	views := make([][]view, len(questions))
	var mu sync.Mutex
	var looks sync.WaitGroup
	for o, indexes := range about {
		looks.Go(func() {
			ids := make([]timer.ID, len(indexes))
			for n, i := range indexes {
				ids[n] = questions[i].Record.ID.WithoutHint()
			}
			seen := o.Copies.See(bounded, ids)
			mu.Lock()
			defer mu.Unlock()
			for n, i := range indexes {
				views[i] = append(views[i], view{o, seen[n]})
			}
		})
	}
	looks.Wait()
	return views
}

// weigh sums up what the other sites say: a newer state counts most, then a copy that may call back, then that the
// timer is over.
func (s *Sites) weigh(ctx context.Context, q *Question, views []view) Verdict {
	mine := q.Record.State
	var newer *view
	for i := range views {
		v := &views[i]
		if theirs := v.Newest.Record.State; mine.Lacks(theirs) && (newer == nil || newer.Newest.Record.State.Lacks(theirs)) {
			newer = v
		}
	}
	if newer != nil {
		return s.adopt(ctx, newer)
	}
	home := s.home(q.Record) == s.ownName()
	var verdict Verdict
	for i := range views {
		v := &views[i]
		switch theirs := v.Newest.Record.State; {
		case theirs.Version != 0 && !theirs.Lacks(mine): // the same state
			verdict.Wait = max(verdict.Wait, s.yield(q, v, home))
		case !v.Whole && q.Overdue < timing.LeftToOthers:
			verdict.Wait = max(verdict.Wait, hesitation)
		case theirs.Version != 0 || home || !v.Whole:
		case s.isOver(ctx, q, v):
			verdict.Over = true
		}
	}
	if verdict.Wait > 0 {
		verdict.Over = false
	}
	return verdict
}

// yield is how long a copy waits for an equal copy of another site: a copy at the home for a callback that another site
// has leased, any other copy as long as a node works on the shards of the other site.
func (s *Sites) yield(q *Question, v *view, home bool) time.Duration {
	switch lease := max(v.Newest.LookIn, 0) + time.Millisecond; {
	case v.Newest.Fired, v.Newest.Leased && !home:
		return lease
	case v.Newest.Leased: // the other site compares, and then calls back or yields
		return min(lease, hesitation)
	case home || !v.other.works():
		return 0
	}
	return max(s.own.Shards.Spacing(q.Record).Skew, q.Overdue)
}

// works reports whether a node of the site has announced itself lately, and calls back: while a site that has lost its
// timers is filled, the nodes of that site call nothing.
func (o *Other) works() bool {
	if o.empty.Load() {
		return false
	}
	for _, sh := range o.Shards.All() {
		if sh.Worked() {
			return true
		}
	}
	return false
}

// adopt brings the copies of the own site up to a newer copy of another site.
func (s *Sites) adopt(ctx context.Context, newer *view) Verdict {
	before, errs := s.own.Copies.BringUp(ctx, []replica.Foreign{s.foreign(&newer.other.Site, &s.own, newer.Newest, false)})
	if errs[0] != nil {
		return Verdict{Wait: hesitation}
	}
	if r := &newer.Newest.Record; replaces(r.State, before[0]) {
		newer.other.countLost(ctx, &s.own, newer.other.Name, []timer.ID{r.ID})
	}
	newer.other.clear(ctx, s.wholly(ctx, newer.other, []*store.Record{&newer.Newest.Record}))
	return Verdict{Adopted: true}
}

// backward are the marks that another site may have for the own site, about a copy that both sites have alike.
func (o *Other) backward(r *store.Record) []store.ToldMark {
	own := o.s.ownName()
	return []store.ToldMark{
		{Mark: store.Mark{Site: own, Key: r.ID.Key}, State: r.State}, {Mark: store.Mark{Site: own, Key: r.ID.Key, Outcome: true}, State: r.State},
	}
}

// clear ends marks at another site for the own site, where the copy there is in a state that the own site has (rule "tell the
// present state"). Without marks there, clear asks nobody.
func (o *Other) clear(ctx context.Context, alike []store.ToldMark) {
	if len(alike) == 0 || !o.touch.anyMark() {
		return
	}
	bounded, cancel := o.s.config.Awake.WithTimeout(ctx, patience)
	defer cancel()
	marks := map[*shard.Shard][]store.ToldMark{}
	for _, m := range alike {
		for _, p := range o.Shards.Homes(timer.ID{Key: m.Key, RF: timer.MaxReplicationFactor}) {
			if !p.Shard.Away() {
				marks[p.Shard] = append(marks[p.Shard], m)
			}
		}
	}
	var ends sync.WaitGroup
	for sh, all := range marks {
		ends.Go(func() {
			if err := o.Shards.Store.Unmark(bounded, sh.Name, all); err != nil {
				sh.Log.Debug("marks could not be ended", "err", err)
			}
		})
	}
	ends.Wait()
}

// isOver reports whether a timer that another site does not know is over: the owners there have all that the own site
// knew, and the other site needs not be told of this copy.
func (s *Sites) isOver(ctx context.Context, q *Question, v *view) bool {
	bounded, cancel := s.config.Awake.WithTimeout(ctx, patience)
	defer cancel()
	for _, name := range v.Owners {
		from, err := v.other.Shards.Store.Filled(bounded, name)
		if err != nil || !slices.Contains(from, s.ownName()) {
			return false
		}
	}
	for _, p := range s.own.Shards.Homes(q.Record.ID.WithoutHint()) {
		if p.Shard.Away() && p.Shard.Name != q.Shard {
			continue
		}
		marked, err := s.own.Shards.Store.Marked(bounded, p.Shard.Name, v.other.Name, []string{q.Record.ID.Key})
		if err != nil || marked[0] {
			return false
		}
	}
	return true
}
