package store

import (
	"time"

	"chronos/scheduler/timer"
)

// Write is a state for a copy, which the copy takes if the state is newer. The constructors below
// make all writes of the product, a constructor for each use.
type Write struct {
	Kind  WriteKind
	Shard string
	Key   string
	State timer.State  // Ended follows the kind, except for leave and drop
	Timer *timer.Timer // of put, once, anew, live, amend and onto, and of rank for the interval
	RF    int          // 0 counts as 1
	Rank  int
	Away  []Away // of an end: the places that have missed the end, besides the places noted there
	// DueIn is how long until pop State.Seq is due (put, once, anew, live, amend, onto), unless
	// Timer.At says when. Retry is how long until somebody must look at a copy that waits for
	// a retry (again; live and amend, if State has an attempt; rank, if State has an attempt and Retry
	// is not 0; negative for at once), or at a copy that is hastened.
	DueIn, Retry time.Duration
	Offset       time.Duration // from a pop to when somebody must look at the copy; Retry includes the offset
	// Life is how long the tombstone of an ended timer stays. Keep is how long a tombstone
	// with a body hash stays, if Keep is longer than Life.
	Life, Keep time.Duration
	// BodyHash is the hash of a request with an idempotency key, or tells apart several messages
	// with the same key. The hash contains no space.
	BodyHash string
	// Failure is why the attempt before failed. A zero time stands for the shard's time.
	Failure Failure
	LeftOut int // as that of a Record
	// Site is the home site of the version (put, once, anew, live, amend, onto); "" without sites.
	Site string
	// Token makes the write a leased write, which does nothing unless the lease holds (rule
	// "leased writes need the lease").
	Token string
	// IfNewest makes the write conditional: a copy of a newer version, or with a newer revision of the
	// version, refuses the write as WriteNewer (rule "conditions"). A version of 0 is older than every
	// copy. A conditional write is no leased write. A shard that has lost data lately carries out no
	// conditional write.
	IfNewest *Newest
}

// Newest is the newest version that a condition allows, and the newest revision of the version. With a
// Seq, the copy must exist, and a copy of the version must be at exactly the pop and the attempt.
type Newest struct {
	Version, Rev timer.Version
	Seq, Attempt int
}

// WriteKind is the effect of a Write on a copy.
type WriteKind string

// The kinds of a Write. Put, once, anew, amend, hasten, gone, look and onto come from clients' requests; the
// rest are outcomes and repairs, which come from nodes.
const (
	WritePut    WriteKind = "put"    // Put
	WriteOnce   WriteKind = "once"   // CreateOnce
	WriteAnew   WriteKind = "anew"   // Admit; without a Timer Remember
	WriteOnto   WriteKind = "onto"   // Update; a revision where no copy belongs
	WriteAmend  WriteKind = "amend"  // Amend
	WriteHasten WriteKind = "hasten" // Hasten
	WriteLook   WriteKind = "look"   // Look
	WriteDrop   WriteKind = "drop"   // Drop
	WriteGone   WriteKind = "gone"   // End
	WriteBury   WriteKind = "bury"   // EndExisting
	WriteDone   WriteKind = "done"   // Done
	WriteNext   WriteKind = "next"   // Next
	WriteAgain  WriteKind = "again"  // Again
	WriteLive   WriteKind = "live"   // Copy
	WriteRank   WriteKind = "rank"   // Rank
	WriteLeave  WriteKind = "leave"  // Leave
)

// Target is the copy that a write is for.
type Target struct {
	Shard, Key string
	RF, Rank   int // RF 0 counts as 1
}

func (to *Target) write(w Write) Write {
	w.Shard, w.Key, w.RF, w.Rank = to.Shard, to.Key, to.RF, to.Rank
	return w
}

// Creation is a new version of a timer, as a client asks for it.
type Creation struct {
	Version  timer.Version
	Timer    *timer.Timer
	DueIn    time.Duration // until the first pop, unless the timer says when
	BodyHash string        // of a create that happens once
	// Seq is the number of the first pop, if a version goes on with the pops of the version before; 0 counts
	// as 1. LeftOut is as that of a Record.
	Seq, LeftOut int
	Site         string // the home site; "" without sites
}

func (c *Creation) write(kind WriteKind, to Target, offset time.Duration) Write {
	return to.write(Write{
		Kind: kind, State: timer.State{Version: c.Version, Seq: max(c.Seq, 1)}, Timer: c.Timer, DueIn: c.DueIn, Offset: offset, BodyHash: c.BodyHash,
		LeftOut: c.LeftOut, Site: c.Site,
	})
}

// Put is a client's create or replace. A put is refused if a live timer has another RF.
func Put(to Target, c Creation, offset time.Duration) Write { return c.write(WritePut, to, offset) }

// CreateOnce is a create with an idempotency key: refused where a live timer or a body hash is.
func CreateOnce(to Target, c Creation, offset time.Duration) Write {
	return c.write(WriteOnce, to, offset)
}

// Admit is a message of a stream: refused where a live timer or the same body hash is.
func Admit(to Target, c Creation, offset time.Duration) Write { return c.write(WriteAnew, to, offset) }

// Update is a client's create or replace on a live copy where no copy belongs. The rank of the
// copy stays, and the offset is the offset of rank 0 (half a skew).
func Update(to Target, c Creation, offset time.Duration) Write { return c.write(WriteOnto, to, offset) }

// Amend is a PATCH of the timer that was read: the copy gets the revision of the state and the rest of
// the timer, and keeps its state, its grid and its firing mark (rule "a patch is a revision"). A copy
// of an older version takes all. A shard without a copy stays without a copy. On a condition the copy
// must be of the version.
func Amend(to Target, r *Record, at Times) Write {
	w := Copy(to, r, at)
	w.Kind = WriteAmend
	return w
}

// AmendLeft is Amend on a live copy where no copy belongs. The rank of the copy stays, and the offset
// is the offset of rank 0 (half a skew).
func AmendLeft(to Target, r *Record, at Times) Write {
	w := Copy(to, r, at)
	w.Kind = WriteOnto
	return w
}

// Hasten has a copy in exactly this state come due in so long, unless the copy comes due sooner (rule "fire
// now"). The state stays, and a leased copy stays as it is. The revision of the state does not count; on a
// condition the copy has no newer revision.
func Hasten(to Target, state timer.State, in time.Duration) Write {
	state.Rev = 0
	return to.write(Write{Kind: WriteHasten, State: state, Retry: in})
}

// Look changes nothing: the answer tells the state of the copy.
func Look(to Target, v timer.Version) Write {
	return to.write(Write{Kind: WriteLook, State: timer.State{Version: v}})
}

// Drop removes the same version, unless the version has gone on, and leaves nothing. Drop takes back
// a client's write, or removes a copy that no owner knows.
func Drop(to Target, state timer.State) Write { return to.write(Write{Kind: WriteDrop, State: state}) }

// Tombstone is the end of a timer, and how long the end is remembered.
type Tombstone struct {
	State      timer.State
	Life, Keep time.Duration // as in Write
	BodyHash   string
	Away       []Away
}

func (t *Tombstone) write(kind WriteKind, to Target) Write {
	return to.write(Write{Kind: kind, State: t.State, Life: t.Life, Keep: t.Keep, BodyHash: t.BodyHash, Away: t.Away})
}

// End is a client's delete, or an end that must leave a tombstone. On the same tombstone a second end
// adds to the places that have missed the end.
func End(to Target, t Tombstone) Write { return t.write(WriteGone, to) }

// EndExisting is End on an existing copy. A shard without a copy stays without a copy.
func EndExisting(to Target, t Tombstone) Write { return t.write(WriteBury, to) }

// Remember notes that the timer of a stream's message is over: refused as Admit is.
func Remember(to Target, t Tombstone) Write { return t.write(WriteAnew, to) }

// Done is an outcome that leaves no pop. Done removes exactly its predecessor, and leaves the
// tombstone on an older state and where no copy is.
func Done(to Target, t Tombstone) Write { return t.write(WriteDone, to) }

// Next is an outcome after which the next pop follows: the state goes on, the rest of the copy
// stays. An earlier version is not changed, and a missing copy not made. A pop that is overdue
// is looked at offset from now.
func Next(to Target, state timer.State, offset time.Duration, why Failure) Write {
	return to.write(Write{Kind: WriteNext, State: state, Offset: offset, Failure: why})
}

// Again is an outcome after which a retry follows; otherwise as Next.
func Again(to Target, state timer.State, retry time.Duration, why Failure) Write {
	return to.write(Write{Kind: WriteAgain, State: state, Retry: retry, Failure: why})
}

// Times are when the pop of a copied state is due, and when somebody must look at the copy, as
// in Write.
type Times struct{ DueIn, Offset, Retry time.Duration }

// Copy makes the copy equal to a live record of another copy.
func Copy(to Target, r *Record, at Times) Write {
	return to.write(Write{
		Kind: WriteLive, State: r.State, Timer: &r.Timer, BodyHash: r.BodyHash, Failure: r.Failure, LeftOut: r.LeftOut, Site: r.Site,
		DueIn: at.DueIn, Offset: at.Offset, Retry: at.Retry,
	})
}

// Rank gives a copy in exactly this state another rank, unless a lease or a firing mark lasts.
func Rank(to Target, r *Record, offset, retry time.Duration) Write {
	return to.write(Write{Kind: WriteRank, State: r.State, Timer: &r.Timer, Offset: offset, Retry: retry})
}

// Leave removes a copy in exactly this state, unless a lease or a firing mark lasts.
func Leave(to Target, state timer.State) Write {
	return to.write(Write{Kind: WriteLeave, State: state})
}

// Under is the write as a leased write.
func (w Write) Under(token string) Write {
	w.Token = token
	return w
}

// If is the write as a conditional write, for copies of at most this version and revision.
func (w Write) If(newest Newest) Write {
	w.IfNewest = &newest
	return w
}

// LeavingOut is the outcome of a callback that has not told of so many pops left out.
func (w Write) LeavingOut(pops int) Write {
	w.LeftOut = pops
	return w
}

// At is the write with another version.
func (w Write) At(v timer.Version) Write {
	w.State.Version = v
	return w
}
