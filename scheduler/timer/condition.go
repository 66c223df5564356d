package timer

import (
	"errors"
	"slices"
)

// Condition is what the newest version of a timer must be, for a write to be carried out (RFC 9110,
// 13.1). The zero value is always met.
type Condition struct {
	Exists bool      // the timer must exist
	Absent bool      // the timer must not exist
	OneOf  []Version // the timer must exist, with one of these versions
}

// IsZero reports whether the condition is always met.
func (c *Condition) IsZero() bool { return !c.Exists && !c.Absent && c.OneOf == nil }

// Met reports whether a timer meets the condition. A version of 0 stands for no timer.
func (c *Condition) Met(present Version) bool {
	switch {
	case c.Absent && present != 0, (c.Exists || c.OneOf != nil) && present == 0:
		return false
	case c.OneOf != nil:
		return slices.Contains(c.OneOf, present)
	}
	return true
}

// ConditionError says that a write was not carried out, because its condition is not met.
type ConditionError struct {
	Present Version // of the timer; 0 if the timer does not exist
}

func (e *ConditionError) Error() string { return "the condition of the write is not met" }

// ErrUndecided is an ErrUnavailable of a condition that could not be judged. Nothing was done.
var ErrUndecided = errors.Join(ErrUnavailable, errors.New("the condition can't be judged"))
