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

// Own is the own site.
func (s *Sites) Own() *Site { return &s.own }

// Decision is the site that decides about a write on a condition.
type Decision struct {
	*Site

	s     *Sites
	known *store.Record // the newest copy, if another site has the copy
	from  *Site         // that other site
}

// Decide names the site that decides about writes on a condition: the home of the newest copy that the own site knows, or
// that any site knows; if all sites say that there is none, the first site in the timer's order (rule "one site decides"). The error
// wraps timer.ErrUndecided, or timer.ErrUnavailable while the own site waits for its timers.
func (s *Sites) Decide(ctx context.Context, id timer.ID) (*Decision, error) {
	others := s.all()
	if len(others) == 0 {
		return &Decision{Site: &s.own}, nil
	}
	if err := s.Ready(); err != nil {
		return nil, err
	}
	from, newest := &s.own, s.own.Copies.See(ctx, []timer.ID{id})[0].Newest
	if state := newest.Record.State; state.Version == 0 || state.Ended { // a tombstone names no home
		elsewhere, there, silent := s.newestElsewhere(ctx, others, id)
		switch {
		case elsewhere != nil && state.Lacks(there.Record.State):
			from, newest = elsewhere, there
		case silent != "":
			return nil, fmt.Errorf("%w: site %s, which may have the timer, gives no answer", timer.ErrUndecided, silent)
		}
	}
	r := newest.Record
	r.ID.Key = id.Key
	at, err := s.site(s.home(&r))
	if err != nil {
		return nil, err
	}
	d := &Decision{Site: at, s: s}
	if from != at && r.State.Version != 0 && !r.State.Ended {
		d.known, d.from = &r, from
	}
	return d, nil
}

// Elsewhere reports whether another site than the deciding site has the newest copy that was found: Trust may then doubt
// the answer.
func (d *Decision) Elsewhere() bool { return d.known != nil }

// Trust is err, the answer of the deciding site about the write that the site has found; 0 for none. If the site has
// an older version than another site, or none, and may have lost the timer, the error wraps timer.ErrUndecided instead.
func (d *Decision) Trust(ctx context.Context, found timer.Version, err error) error {
	unmet, refused := errors.AsType[*timer.ConditionError](err)
	switch {
	case d.known == nil:
		return err
	case refused:
		found = unmet.Present
	case err != nil && !errors.Is(err, timer.ErrNotFound):
		return err
	}
	if found >= d.known.State.Written() {
		return err
	}
	if found == 0 {
		if over, _ := d.s.areOver(ctx, d.from, d.Site, []*Question{{Record: d.known}}); over[0] {
			return err
		}
	}
	return fmt.Errorf("%w: site %s, the home of the timer, does not have the timer yet", timer.ErrUndecided, d.s.nameOf(d.Site))
}

// First is the first site in the order of a timer that does not exist yet, by a key that a client may repeat; a site that
// this node can't reach, or that has lost its timers, is passed over.
func (s *Sites) First(key string) *Site {
	sites := s.own.Shards.Store.Sites()
	for _, name := range sites.Order(key, "") {
		if name == sites.Own {
			return &s.own
		}
		if other := s.all()[name]; other != nil && other.reached() && !other.empty.Load() {
			return &other.Site
		}
	}
	return &s.own
}

// site is the site of a name. The error wraps timer.ErrUndecided, if the node can't reach the site.
func (s *Sites) site(name string) (*Site, error) {
	if name == s.ownName() {
		return &s.own, nil
	}
	other := s.all()[name]
	if other == nil || !other.reached() {
		return nil, fmt.Errorf("%w: site %s, the home of the timer, can't be reached", timer.ErrUndecided, name)
	}
	return &other.Site, nil
}

// eachOther works with all reached other sites at the same time.
func eachOther(others map[string]*Other, work func(o *Other)) {
	var all sync.WaitGroup
	for _, o := range others {
		if o.reached() {
			all.Go(func() { work(o) })
		}
	}
	all.Wait()
}

// newestElsewhere is the newest copy of other sites, with its site; nil for no copy. silent is a site that gave no whole
// answer; "" if all sites have answered.
func (s *Sites) newestElsewhere(ctx context.Context, others map[string]*Other, id timer.ID) (from *Site, newest store.ReadResult, silent string) {
	bounded, cancel := s.config.Awake.WithTimeout(ctx, timing.RoundPatience)
	defer cancel()
	for name, o := range others {
		if !o.reached() {
			silent = name
		}
	}
	var mu sync.Mutex
	eachOther(others, func(o *Other) {
		seen := o.Copies.See(bounded, []timer.ID{id})[0]
		found := seen.Newest
		found.LookIn += s.shift(&o.Site, &s.own, &found.Record)
		mu.Lock()
		defer mu.Unlock()
		if !seen.Whole {
			silent = o.Name
		}
		if state := found.Record.State; state.Version != 0 && (from == nil || newest.Record.State.Lacks(state)) {
			from, newest = &o.Site, found
		}
	})
	return from, newest, silent
}

// shift is how much later a copy comes due at one site than at another.
func (s *Sites) shift(from, to *Site, r *store.Record) time.Duration {
	return to.Shards.Spacing(r).Site - from.Shards.Spacing(r).Site
}

// foreign is a copy of one site for another site.
func (s *Sites) foreign(from, to *Site, read store.ReadResult, ontoLive bool) replica.Foreign {
	read.LookIn += s.shift(from, to, &read.Record)
	return replica.Foreign{Read: read, OntoLive: ontoLive}
}

// WriteAt carries out a wish that one site decides about: a wish with a condition, or a create that happens once. The site
// becomes the home, so that the site decides about the next condition, too. Then the other sites are told.
func (s *Sites) WriteAt(ctx context.Context, at *Site, w replica.Wish) (timer.Receipt, error) {
	if s.None() {
		return at.Copies.Write(ctx, w)
	}
	if err := s.Ready(); err != nil {
		return timer.Receipt{}, err
	}
	if w.Timer != nil {
		w.Site = s.nameOf(at)
	}
	receipt, err := at.Copies.Write(ctx, w)
	if err != nil {
		return receipt, err
	}
	return s.spread(ctx, at, receipt)
}

// spread tells all other sites of a write that one site has decided about, and marks at that site what could not be
// told in time. The receipt is that of the write.
func (s *Sites) spread(ctx context.Context, from *Site, receipt timer.Receipt) (timer.Receipt, error) {
	others := s.all()
	if len(others) == 0 {
		return receipt, nil
	}
	receipt.Sites, receipt.AllSites = 1, 1+len(others)
	ctx = context.WithoutCancel(ctx)
	bounded, cancel := s.config.Awake.WithTimeout(ctx, max(s.config.SitePatience, timing.PromptAnswer))
	defer cancel()
	id := receipt.ID.WithoutHint()
	read := from.Copies.See(bounded, []timer.ID{id})[0].Newest
	targets := make([]*Site, 0, len(others))
	if from != &s.own {
		targets = append(targets, &s.own)
	}
	for _, o := range others {
		if &o.Site != from {
			targets = append(targets, &o.Site)
		}
	}
	told := make([]bool, len(targets))
	var tells sync.WaitGroup
	for i, to := range targets {
		if read.Record.State.Written() < receipt.Version {
			continue // an owner with the write has not answered
		}
		tells.Go(func() {
			_, errs := to.Copies.BringUp(bounded, []replica.Foreign{s.foreign(from, to, read, false)})
			told[i] = errs[0] == nil
		})
	}
	tells.Wait()
	var marks []store.Mark
	for i, to := range targets {
		if told[i] {
			receipt.Sites++
			continue
		}
		receipt.InFlight = true
		add(s.metrics.unconfirmed, s.nameOf(to), 1)
		marks = append(marks, store.Mark{Site: s.nameOf(to), Key: id.Key})
	}
	if len(marks) == 0 {
		return receipt, nil
	}
	marking, cancelMarking := s.config.Awake.WithTimeout(ctx, timing.RoundPatience)
	defer cancelMarking()
	if !markAt(marking, from, id, marks) {
		return timer.Receipt{}, fmt.Errorf("%w: site %s was not told, and no mark could be left", timer.ErrUnavailable, marks[0].Site)
	}
	return receipt, nil
}

// markAt leaves marks at the owners of a timer, and reports whether an owner has them.
func markAt(ctx context.Context, at *Site, id timer.ID, marks []store.Mark) (marked bool) {
	for _, p := range at.Shards.Homes(id) {
		if at.Shards.Store.Mark(ctx, p.Shard.Name, marks) == nil {
			marked = true
		}
	}
	return marked
}

func (s *Sites) nameOf(site *Site) string {
	if site == &s.own {
		return s.ownName()
	}
	return site.Name
}

// Lookup reads the newest copy of a timer at the own site and at the home, or at all sites if the own site has nothing.
// Errors as of replica.Keeper.Lookup.
func (s *Sites) Lookup(ctx context.Context, id timer.ID) (store.ReadResult, error) {
	own, err := s.own.Copies.Lookup(ctx, id)
	others := s.all()
	if len(others) == 0 {
		return own, err
	}
	if err == nil {
		if home := s.all()[s.home(&own.Record)]; home != nil && home.reached() {
			_, there, _ := s.newestElsewhere(ctx, map[string]*Other{home.Name: home}, id)
			if own.Record.State.Lacks(there.Record.State) {
				return s.found(there)
			}
		}
		return own, nil
	}
	_, there, silent := s.newestElsewhere(ctx, others, id)
	if there.Record.State.Version != 0 && own.Record.State.Lacks(there.Record.State) {
		return s.found(there)
	}
	if silent != "" {
		return store.ReadResult{}, fmt.Errorf("%w: site %s gives no answer", timer.ErrUnavailable, silent)
	}
	return own, err
}

// found is the answer about a copy of another site.
func (s *Sites) found(read store.ReadResult) (store.ReadResult, error) {
	if read.Record.State.Ended {
		return store.ReadResult{}, timer.ErrNotFound
	}
	return read, read.Err
}
