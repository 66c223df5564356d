package timer

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"
)

// Version is the hybrid logical clock of a client's last write to a timer: the upper 48 bits are
// milliseconds since the Unix epoch, the lower 16 bits a tag that distinguishes writes of one
// millisecond, and tells writes with a condition. Versions rise per timer, not per process.
type Version uint64

// conditional is the bit of a tag that only writes with a condition have.
const conditional = 1

// Conditional reports whether the version is of a write with a condition (rule "what an answer may say").
func (v Version) Conditional() bool { return v&conditional != 0 }

// WithCondition is the version v of a write with a condition.
func (v Version) WithCondition() Version { return v | conditional }

// Above is the smallest version with the given tag that is newer than v whatever v's tag is.
func (v Version) Above(tag uint16) Version {
	return (v>>VersionTagBits+1)<<VersionTagBits | Version(tag)
}

// VersionTagBits is how many of the lower bits of a Version are the tag.
const VersionTagBits = 16

// VersionAt is the version of a write at the given wall-clock time with the given
// tag.
func VersionAt(wall time.Time, tag uint16) Version {
	return Version(wall.UnixMilli())<<VersionTagBits | Version(tag)
}

// Time is the wall-clock time of the write, by the fastest clock that its node knew of.
func (v Version) Time() time.Time { return time.UnixMilli(int64(v >> VersionTagBits)) }

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

// State orders the copies of one timer (rule "order of states"): by version, then by whether the
// timer has ended, then by sequence number, then by attempt. Times are no part of the state.
type State struct {
	Version Version
	Seq     int  // the next pop, 1 at creation
	Attempt int  // callbacks started for that pop, counted by the fence
	Ended   bool // a tombstone: the state after the last, "done" or deleted
	// Rev is the revision: the hybrid logical clock of the last PATCH of this version; 0 without a
	// PATCH. A revision is no part of the order of states (rule "a patch is a revision").
	Rev Version
}

// Written is the clock of the last write of a client: of a PATCH, or of the version.
func (s State) Written() Version { return max(s.Version, s.Rev) }

// Revised reports whether s has a newer revision of the live version o.
func (s State) Revised(o State) bool {
	return s.Version == o.Version && !s.Ended && !o.Ended && s.Rev > o.Rev
}

// Lacks reports whether o has something that s does not have: a newer state, or a newer revision.
func (s State) Lacks(o State) bool { return s.Compare(o) < 0 || o.Revised(s) }

// Compare is negative if s is older than o, zero if both are the same state, positive if s is
// newer. Two tombstones of one version are the same state.
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
