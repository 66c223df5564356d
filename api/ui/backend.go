package ui

import (
	"context"
	"time"

	"chronos/api/tokens"
	"chronos/api/wire"
	"chronos/scheduler/cluster"
	"chronos/scheduler/deadletter"
	"chronos/scheduler/destinations"
	"chronos/scheduler/forecast"
	"chronos/scheduler/listing"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// Cluster tells how the cluster is. The methods of Cluster are safe for concurrent use, and return soon
// after ctx has ended.
type Cluster interface {
	// Status is the cluster as this node knows the cluster. An error says that nothing is known.
	Status(ctx context.Context) (cluster.Status, error)
	// Load tells how much comes due when. The error wraps timer.ErrUnavailable if no shard answers.
	Load(ctx context.Context, q forecast.Query) (forecast.Load, error)
}

// History has what this node remembers of the cluster; *cluster.Observer implements History.
type History interface {
	// History has the moments of the last hour, the oldest first. History is safe for concurrent use
	// and blocks on nothing.
	History() []cluster.Moment
}

// Lister finds timers among all timers, and changes the timers that it finds; *listing.Lister implements
// Lister. The methods of Lister are safe for concurrent use, and return soon after ctx has ended. Errors:
// store.ErrCursor, listing.ErrStale, listing.ErrBusy, *timer.InvalidError, timer.ErrUnavailable.
type Lister interface {
	// List returns a page of timers.
	List(ctx context.Context, q listing.Query) (listing.Page, error)
	// Bulk changes the timers of a page.
	Bulk(ctx context.Context, b listing.Bulk) (listing.Done, error)
}

// Timers shows and changes single timers; *scheduler.Scheduler implements Timers. The methods of Timers
// are safe for concurrent use, and return soon after ctx has ended. Errors: the scheduler's errors, and
// timer.ErrFiring.
type Timers interface {
	// Lookup reads the newest copy of a timer.
	Lookup(ctx context.Context, id timer.ID) (store.ReadResult, error)
	// Copies tells what each shard has of a timer.
	Copies(ctx context.Context, id timer.ID) ([]listing.Copy, error)
	// DeleteIf ends a timer on a condition.
	DeleteIf(ctx context.Context, id timer.ID, cond timer.Condition) (timer.Receipt, error)
	// Fire has the next pop be due now, on a condition.
	Fire(ctx context.Context, id timer.ID, cond timer.Condition) (timer.Receipt, error)
	// Delay moves the next pop and the pops behind, on a condition.
	Delay(ctx context.Context, id timer.ID, cond timer.Condition, by time.Duration) (timer.Receipt, error)
}

// Letters are the dead letters; *deadletter.Letters implements Letters. The methods of Letters are safe for concurrent use, and return soon after
// ctx has ended. wire.LetterProblem explains the errors.
type Letters interface {
	// List returns a page of letters, the newest first.
	List(ctx context.Context, q store.LetterQuery) (store.LetterPage, error)
	// Letter returns the letter with the id.
	Letter(ctx context.Context, id string) (store.Letter, error)
	// Groups counts the newest letters by destination and reason.
	Groups(ctx context.Context) (deadletter.Groups, error)
	// Fire fires the letter again.
	Fire(ctx context.Context, id string) (timer.Receipt, error)
	// FireAll fires again some of the letters that match q.
	FireAll(ctx context.Context, q store.LetterQuery) (deadletter.Done, error)
	// Delete deletes the letter.
	Delete(ctx context.Context, id string) error
	// DeleteAll deletes some of the letters that match q.
	DeleteAll(ctx context.Context, q store.LetterQuery) (deadletter.Done, error)
}

// Destinations are the destinations of callbacks; *scheduler.Scheduler implements Destinations. The methods of Destinations are safe for concurrent
// use. wire.PauseProblem explains the errors.
type Destinations interface {
	// Destinations lists the destinations with a limit or a pause, and the busiest of the rest.
	Destinations() []destinations.View
	// Pause pauses a destination until an instant.
	Pause(ctx context.Context, destination string, until time.Time) (destinations.Pausing, error)
	// Resume ends the pause of a destination.
	Resume(ctx context.Context, destination string) (destinations.Pausing, error)
}

// Topology changes the shards. The methods of Topology are safe for concurrent use. wire.TopologyProblem
// explains the errors.
type Topology interface {
	// Add announces a shard; url is "" for a shard that is being drained.
	Add(ctx context.Context, name, url string, force bool) (wire.TopologyView, error)
	// Drain has a shard's timers moved to the remaining shards.
	Drain(ctx context.Context, name string, force bool) (wire.TopologyView, error)
	// Remove forgets a shard that is drained and empty; with force, any shard.
	Remove(ctx context.Context, name string, force bool) (wire.TopologyView, error)
}

// Authorizer decides by the header Authorization whether a request is allowed. An Authorizer is safe for
// concurrent use and blocks on nothing.
type Authorizer interface {
	// Check decides about a request with the header authorization.
	Check(authorization []byte, need tokens.Role, now time.Time) tokens.Decision
}
