package timer

import (
	"time"
)

// Limits of a client's request.
const (
	MaxInterval              = 100 * 365 * 24 * time.Hour // also of repeat-for
	MinRecurringInterval     = 100 * time.Millisecond
	MinExpiry                = time.Second // of ExpiresAfter
	MaxReplicationFactor     = 16
	DefaultReplicationFactor = 2
	MaxURILength             = 8 << 10 // bytes
	MaxTags                  = 32
	MaxTagType               = 256 // bytes
)

// Timer is a client's request: when, how often, whom to call. The zero value is not valid. A Timer
// is a value: nothing in a Timer is changed after the Timer was handed over.
type Timer struct {
	// Interval is the time from the write to the first pop and between pops, in
	// whole milliseconds. Zero fires at once.
	Interval time.Duration
	// At is the instant of the first pop, in whole milliseconds; the zero Time if Interval says
	// when. With At, Interval is zero unless the timer recurs.
	At time.Time
	// RepeatFor is how long the timer recurs, zero for a one-shot timer.
	RepeatFor time.Duration
	// ExpiresAfter is how long after its due time a pop may be attempted, in whole milliseconds; zero
	// for no bound.
	ExpiresAfter time.Duration
	// ReplicationFactor is the number of copies asked for, 1 to 16.
	ReplicationFactor int
	// Callback says whom to call.
	Callback Callback
	// Tags are counted by the statistics; at most MaxTags.
	Tags []Tag
}

// Tag says what a timer represents, for the statistics.
type Tag struct {
	Type  string // not empty, MaxTagType bytes at most
	Count int    // at least 1
}

// Pops is how many pops the timer has in all: floor(RepeatFor / Interval), and
// 1 for a one-shot timer.
func (t *Timer) Pops() int {
	if t.RepeatFor == 0 || t.Interval <= 0 {
		return 1
	}
	return int(t.RepeatFor / t.Interval)
}

// Validate reports the first part of t that is refused as an *InvalidError whose pointer is into
// the request body of api/openapi.yaml, nil if t is fine.
func (t *Timer) Validate() error {
	for _, check := range []func(*Timer) *InvalidError{
		(*Timer).CheckTiming, (*Timer).CheckExpiry, (*Timer).checkCallback, (*Timer).CheckReplication, (*Timer).CheckTags,
	} {
		if err := check(t); err != nil {
			return err
		}
	}
	return nil
}

// CheckTiming is the part of Validate that is about interval, at and repeat-for.
func (t *Timer) CheckTiming() *InvalidError {
	const interval, repeat = "/timing/interval", "/timing/repeat-for"
	switch {
	case t.Interval < 0:
		return Invalid(interval, "interval-negative", "interval is negative; give a number of seconds from 0 up")
	case t.RepeatFor < 0:
		return Invalid(repeat, "repeat-for-negative", "repeat-for is negative; give a number of seconds from 0 up, or leave it out")
	case t.Interval > MaxInterval:
		return Invalid(interval, "interval-too-long", "interval is over 100 years; give at most 3153600000 seconds")
	case t.RepeatFor > MaxInterval:
		return Invalid(repeat, "repeat-for-too-long", "repeat-for is over 100 years; give at most 3153600000 seconds")
	case !t.At.IsZero() && t.Interval != 0 && t.RepeatFor == 0:
		return AtAndInterval()
	case !t.At.IsZero() && t.Interval == 0 && t.RepeatFor != 0:
		return Invalid(repeat, "at-and-repeat-for", "a timer with at and without interval fires once; add an interval for a recurring timer, or leave out repeat-for")
	case t.RepeatFor == 0:
		return nil
	case t.Interval == 0:
		return Invalid(interval, "interval-zero", "a recurring timer needs an interval; interval 0 fires once and takes no repeat-for")
	case t.RepeatFor < t.Interval:
		return Invalid(repeat, "repeat-for-short", "repeat-for is less than interval, so the timer would never fire; raise it to at least interval")
	case t.Interval < MinRecurringInterval:
		return Invalid(interval, "interval-too-short", "a recurring timer's interval is less than 0.1 s; raise it, or leave out repeat-for")
	}
	return nil
}

// AtAndInterval refuses a timer that fires once, with two due times.
func AtAndInterval() *InvalidError {
	return Invalid("/timing", "at-and-interval", "at and interval exclude each other unless the timer recurs; give one of them, or add repeat-for")
}

// CheckExpiry is the part of Validate that is about expires-after.
func (t *Timer) CheckExpiry() *InvalidError {
	if t.ExpiresAfter != 0 && (t.ExpiresAfter < MinExpiry || t.ExpiresAfter > MaxInterval) {
		return ExpiryRange()
	}
	return nil
}

// ExpiryRange refuses a time after which a pop is no longer attempted.
func ExpiryRange() *InvalidError {
	return Invalid("/timing/expires-after", "expires-range", "expires-after is not from 1 second to 100 years; give a number of seconds in these bounds, or leave it out")
}

// CheckReplication is the part of Validate that is about the replication factor.
func (t *Timer) CheckReplication() *InvalidError {
	if t.ReplicationFactor < 1 || t.ReplicationFactor > MaxReplicationFactor {
		return Invalid("/reliability/replication-factor", "replication-factor-range",
			"replication-factor is not a whole number from 1 to %d; give one, or leave it out", MaxReplicationFactor)
	}
	return nil
}

// CheckTags is the part of Validate that is about the tags.
func (t *Timer) CheckTags() *InvalidError {
	if len(t.Tags) > MaxTags {
		return Invalid("/statistics/tag-info", "tag-info", "tag-info has more than %d entries; leave some out", MaxTags)
	}
	for _, tag := range t.Tags {
		if len(tag.Type) > MaxTagType {
			return Invalid("/statistics/tag-info", "tag-info", "a type in tag-info is longer than %d bytes; shorten it", MaxTagType)
		}
		if tag.Type == "" || tag.Count < 1 {
			return Invalid("/statistics/tag-info", "tag-info", "an entry of tag-info has no type or no positive count; give each a non-empty string type, and a whole count from 1 up or none")
		}
	}
	return nil
}

// Size is how many bytes of memory a timer takes in a node, about.
func (t *Timer) Size() int {
	const tag = 24 // bytes of a Tag beside its type
	size := len(t.Callback.URI) + len(t.Callback.Opaque) + len(t.Callback.Headers)
	for i := range t.Tags {
		size += tag + len(t.Tags[i].Type)
	}
	return size
}
