package deadletter

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// Bounds of Groups.
const (
	MaxLookedAt = 20000 // letters, the newest
	MaxGroups   = 200

	// groupsPage is how many letters are read together, groupsPatience how long letters are read, groupsLife how long
	// the groups are kept.
	groupsPage     = 1000
	groupsPatience = time.Second
	groupsLife     = 5 * time.Second
)

// Groups are the newest dead letters by destination and reason.
type Groups struct {
	Groups   []Group // the largest first
	LookedAt int     // letters
	// Complete says that all letters were looked at, and that all groups are here.
	Complete  bool
	Unreached []string // shards that gave no answer
}

// Group are the letters of one destination with one reason.
type Group struct {
	Destination    string // scheme://host:port; "" for letters that can't be read
	Reason         string
	Count          int
	Oldest, Newest time.Time
}

// grouped is the result of reading the groups.
type grouped struct {
	groups Groups
	err    error
}

// Groups groups the newest letters: as many as MaxLookedAt, and as can be read in about a second. An answer is at most 5 s
// old; callers wait for one reader. The error wraps timer.ErrUnavailable if ctx ended first. The caller must not change
// the groups.
func (d *Letters) Groups(ctx context.Context) (Groups, error) {
	found, ok := d.groups.Get(ctx, func(ctx context.Context) (g grouped) {
		g.groups, g.err = d.readGroups(ctx)
		return g
	})
	if !ok {
		return Groups{}, fmt.Errorf("%w: group dead letters: %w", timer.ErrUnavailable, ctx.Err())
	}
	return found.groups, found.err
}

func (d *Letters) readGroups(ctx context.Context) (Groups, error) {
	type kind struct{ destination, reason string }
	by := make(map[kind]*Group)
	var found Groups
	q := store.LetterQuery{Limit: groupsPage}
	for begun := time.Now(); ; {
		page, err := d.store.Letters(ctx, q)
		if err != nil {
			return Groups{}, err
		}
		for i := range page.Letters {
			l := &page.Letters[i]
			of := kind{reason: l.Reason}
			if l.Err == nil {
				of.destination = d.destination(l.Record.Timer.Callback)
			}
			if by[of] == nil {
				by[of] = &Group{Destination: of.destination, Reason: of.reason, Newest: l.At}
			}
			by[of].Count++
			by[of].Oldest = l.At // the newest letters come first
		}
		found.LookedAt += len(page.Letters)
		for _, name := range page.Unreached {
			if !slices.Contains(found.Unreached, name) {
				found.Unreached = append(found.Unreached, name)
			}
		}
		q.Cursor = page.Next
		q.Limit = min(groupsPage, MaxLookedAt-found.LookedAt)
		if q.Cursor == "" || q.Limit <= 0 || time.Since(begun) >= groupsPatience {
			break
		}
	}
	for _, g := range by {
		found.Groups = append(found.Groups, *g)
	}
	slices.SortFunc(found.Groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Destination, b.Destination), strings.Compare(a.Reason, b.Reason))
	})
	found.Complete = q.Cursor == "" && len(found.Unreached) == 0 && len(found.Groups) <= MaxGroups
	found.Groups = found.Groups[:min(len(found.Groups), MaxGroups)]
	return found, nil
}
