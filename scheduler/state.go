package scheduler

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"
)

// Version is the hybrid logical clock of a client's last write to a timer: the
// upper 48 bits are milliseconds since the Unix epoch, the lower 16 bits a tag
// that tells writes of one millisecond apart. It rises per timer, not per process.
type Version uint64

const versionTagBits = 16

// VersionAt is the version of a write at the given wall-clock time with the given
// tag.
func VersionAt(wall time.Time, tag uint16) Version {
	return Version(wall.UnixMilli())<<versionTagBits | Version(tag)
}

// Above is the smallest version with the given tag that is newer than v
// whatever v's tag is.
func (v Version) Above(tag uint16) Version {
	return (v>>versionTagBits+1)<<versionTagBits | Version(tag)
}

// latest is the highest version that a node has heard of. The node's own writes go above that
// version (rule "versions rise"; Kulkarni and others 2014). So two writes that no copy hears
// both of are ordered by what their nodes knew, however far apart their clocks are. The zero
// value has heard of none; it is safe for concurrent use.
type latest struct{ ms atomic.Int64 }

// MaxClockAhead is how far ahead of this node's clock another's may be: one beyond that
// is broken, and neither it nor its versions are followed.
const MaxClockAhead = time.Hour

// heard notes a version that some copy has.
func (l *latest) heard(v Version, wall func() time.Time) {
	ms := int64(v >> versionTagBits)
	for known := l.ms.Load(); ms > known; known = l.ms.Load() {
		if ms > wall().Add(MaxClockAhead).UnixMilli() || l.ms.CompareAndSwap(known, ms) {
			return
		}
	}
}

// next is the version of a write at the given time, of the fastest clock.
func (l *latest) next(wall time.Time, tag uint16) Version {
	v := VersionAt(wall, tag)
	if known := Version(l.ms.Load()) << versionTagBits; v < known {
		return known.Above(tag)
	}
	return v
}

// fastestClock is what the fastest clock that was announced on a shard showed, and when
// that was heard. It is late by the answer's way, so never ahead of what it shows.
type fastestClock struct {
	shows     time.Time
	sinceBoot time.Duration
}

// clockLife is how long a clock is followed after it was heard of last.
const clockLife = 2 * time.Minute

// clock is what the fastest clock of all nodes shows, as far as this one has heard: two
// writes that no copy hears both of are then in the order in which they were asked for,
// however far their nodes' clocks are apart.
func (s *Scheduler) clock() time.Time {
	latest, now := s.config.Wall(), s.config.SinceBoot()
	for _, sh := range s.shards.load() {
		known := sh.fastest.Load()
		if known == nil || now-known.sinceBoot > clockLife {
			continue
		}
		if shows := known.shows.Add(now - known.sinceBoot); shows.After(latest) {
			latest = shows
		}
	}
	return latest
}

// nextTag is another one for each of this node's writes, rising but where it begins
// anew: two of one millisecond must not have one version, or copies that heard of
// one of them each would take it for the other.
func (s *Scheduler) nextTag() uint16 { return uint16(s.tags.Add(1)) }

// Time is the wall-clock time of the write, by the fastest clock that its node knew of.
func (v Version) Time() time.Time { return time.UnixMilli(int64(v >> versionTagBits)) }

// String is the fixed-width hexadecimal form (16 digits): strings compare as
// versions do.
func (v Version) String() string { return string(v.Append(nil)) }

// Append appends what String returns.
func (v Version) Append(b []byte) []byte {
	var raw [8]byte
	binary.BigEndian.PutUint64(raw[:], uint64(v))
	return hex.AppendEncode(b, raw[:])
}

// ParseVersion reads what String wrote.
func ParseVersion(s string) (Version, error) {
	if len(s) != 16 {
		return 0, fmt.Errorf("parse version: want 16 hex digits, have %d characters", len(s))
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return 0, fmt.Errorf("parse version: character %d is not a lower-case hex digit", i+1)
		}
	}
	n, err := strconv.ParseUint(s, 16, 64)
	if err != nil {
		return 0, fmt.Errorf("parse version: %w", err)
	}
	return Version(n), nil
}

// State orders the copies of one timer (rule "order of states"): by version, then by whether
// the timer has ended, then by sequence number, then by attempt. Times are not
// part of it.
type State struct {
	Version Version
	Seq     int  // the pop that is next, 1 at creation
	Attempt int  // callbacks started for that pop, counted by the fence
	Ended   bool // a tombstone: the state after the last, "done" or deleted
}

// Compare is negative if s is older than o, zero if they are the same state,
// positive if s is newer. Two tombstones of one version are the same state.
func (s State) Compare(o State) int {
	if c := cmp.Compare(s.Version, o.Version); c != 0 {
		return c
	}
	if s.Ended || o.Ended {
		return ended(s) - ended(o)
	}
	if c := cmp.Compare(s.Seq, o.Seq); c != 0 {
		return c
	}
	return cmp.Compare(s.Attempt, o.Attempt)
}

func ended(s State) int {
	if s.Ended {
		return 1
	}
	return 0
}
