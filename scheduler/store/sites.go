package store

import (
	"cmp"
	"context"
	"hash/fnv"
	"slices"
	"time"

	"chronos/scheduler/timer"
)

// MinSiteDelay is the least delay between the copies of two neighbouring sites in a timer's order.
const MinSiteDelay = 3 * time.Second

// Sites are the sites of a cluster, as a store of one site knows the sites. The zero value says that the cluster has
// no sites. Nobody may change the list.
type Sites struct {
	Own string   // the site of the store's shards; "" without sites
	All []string // with Own; empty without sites
}

// Order is a timer's order of sites: the home, then the other sites by rendezvous hashing, so that the timers of a
// lost site spread. A home that is no site counts for nothing.
func (s *Sites) Order(key, home string) []string {
	type ranked struct {
		name   string
		weight uint64
	}
	all := make([]ranked, len(s.All))
	for i, name := range s.All {
		all[i] = ranked{name, weightOf(name, key)}
	}
	slices.SortFunc(all, func(a, b ranked) int {
		switch home {
		case a.name:
			return -1
		case b.name:
			return 1
		}
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.name, b.name))
	})
	names := make([]string, len(all))
	for i, r := range all {
		names[i] = r.name
	}
	return names
}

// Index is the place of the own site in a timer's order; 0 without sites.
func (s *Sites) Index(key, home string) int {
	if s.Own == home {
		return 0
	}
	return max(slices.Index(s.Order(key, home), s.Own), 0)
}

// Home is the site whose copies come due first; "" without sites.
func (s *Sites) Home(key, home string) string {
	if len(s.All) == 0 || slices.Contains(s.All, home) {
		return home
	}
	return s.Order(key, home)[0]
}

// weightOf mixes the bits of the hash as MurmurHash3 does (Appleby 2011): the keys of two timers may differ in the last
// character alone.
func weightOf(site, key string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(site)) // never fails
	_, _ = h.Write([]byte{0})
	_, _ = h.Write([]byte(key))
	w := h.Sum64()
	w = (w ^ w>>33) * 0xff51afd7ed558ccd
	w = (w ^ w>>33) * 0xc4ceb9fe1a85ec53
	return w ^ w>>33
}

// SiteDelay is how long after the copies of the site before in the order the copies of a site come due. The delay is
// long where the skew is short: otherwise every pop would be compared across the sites.
func SiteDelay(skew time.Duration, replicationFactor int) time.Duration {
	return max(time.Duration(replicationFactor)*skew, MinSiteDelay)
}

// Marking keeps marks beside the copies: a mark says that another site has not been told of a timer's write or of the
// outcome of a callback. All shards of a site have marks of their own. The error of a call wraps timer.ErrUnavailable.
type Marking interface {
	Neighbours
	Filling

	// Mark notes marks on a shard. A mark that is there keeps its age.
	Mark(ctx context.Context, shard string, marks []Mark) error
	// Marks returns up to n marks of a partition for a site, the oldest first.
	Marks(ctx context.Context, shard string, partition int, site string, n int) ([]Mark, error)
	// Marked reports for each key whether the shard has the mark of a write for the site.
	Marked(ctx context.Context, shard, site string, keys []string) ([]bool, error)
	// OldestMark is the age of the oldest mark on the shard for the site; negative without a mark.
	OldestMark(ctx context.Context, shard, site string) (time.Duration, error)
	// Unmark removes marks, if the copy on the shard has nothing that the site was not told.
	Unmark(ctx context.Context, shard string, told []ToldMark) error
	// ForgetMarks removes all marks on the shard for a site that is no site any more.
	ForgetMarks(ctx context.Context, shard, site string) error
}

// Neighbours names the sites. No method blocks.
type Neighbours interface {
	// Sites are the sites of the cluster; the zero value for a cluster without sites.
	Sites() Sites
	// Site is the store of another site; nil for an unknown site. The store serves calls for the copies there, and
	// the node is a guest there (Announcement.Guest).
	Site(name string) Store
}

// Filling notes which timers a shard has. The error of a call wraps timer.ErrUnavailable.
type Filling interface {
	// Filled returns the notes that were made since the shard was empty: the sites whose timers the shard has, and notes of
	// fills.
	Filled(ctx context.Context, shard string) ([]string, error)
	// NoteFilled makes notes, unless the shard was emptied since an earlier note (before; "" for none). Then NoteFilled
	// returns an error.
	NoteFilled(ctx context.Context, shard, before string, notes []string) error
}

// Mark is a mark for a site.
type Mark struct {
	Site, Key string
	// Outcome says that a callback's outcome is to be told: a site without the timer has ended the timer, and
	// needs no copy.
	Outcome bool
	Age     time.Duration // in answers
	// All stands for all timers of the partition: more marks were wanted than a shard keeps.
	All       bool
	Partition int // of a mark for all
}

// ToldMark is a mark of which the site was told.
type ToldMark struct {
	Mark
	State timer.State // that the site was told; zero if the shard had no copy
}

// MaxMarks is how many marks a partition keeps for a site: 1,000,000 a shard.
const MaxMarks = 62_500
