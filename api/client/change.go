package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Change is what Patch changes of a timer. A nil field stays as the field is in the timer. A pointer to a
// zero value removes the member, so that the default applies, as for the zero value in a Timer: new("") removes
// the body of the callback. The zero Change changes nothing but the ETag.
type Change struct {
	// Interval, RepeatFor, At and ExpiresAfter make the timer start anew, with sequence number 1. At removes Interval and
	// RepeatFor, and Interval removes At. An interval of zero fires at once.
	Interval, RepeatFor, ExpiresAfter *time.Duration
	At                                *time.Time
	// Restart makes the timer start anew even if no timing changes.
	Restart bool

	URI, Opaque, Method *string
	// Headers are headers to set, and nil for headers to remove. All other headers stay, secrets too. Names are
	// found in any case.
	Headers map[string]*string
	Timeout *time.Duration
	// Retry replaces all members of Retry.
	Retry *Retry
	// Tags replace all tags. An empty slice removes all tags, and a nil slice lets the tags stay.
	Tags []Tag
}

// members are the members of an object of a patch, with nil for a member to remove.
type members map[string]any

func encodeChange(c *Change) ([]byte, error) {
	if err := c.checkText(); err != nil {
		return nil, err
	}
	timing, err := c.timing()
	if err != nil {
		return nil, err
	}
	patch := members{}
	if len(timing) > 0 || c.Restart {
		patch["timing"] = timing
	}
	if http := c.http(); len(http) > 0 {
		patch["callback"] = members{"http": http}
	}
	if c.Tags != nil {
		tags := make([]tagBody, len(c.Tags))
		for i, tag := range c.Tags {
			tags[i] = tagBody(tag)
		}
		patch["statistics"] = members{"tag-info": tags}
	}
	raw, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encode change: %w", err)
	}
	return raw, nil
}

// checkText is Timer.checkText of the texts that change.
func (c *Change) checkText() error {
	changed := Timer{Headers: map[string]string{}, Tags: c.Tags}
	if c.URI != nil {
		changed.URI = *c.URI
	}
	if c.Opaque != nil {
		changed.Opaque = *c.Opaque
	}
	for name, value := range c.Headers {
		if changed.Headers[name] = ""; value != nil {
			changed.Headers[name] = *value
		}
	}
	return changed.checkText()
}

func (c *Change) timing() (members, error) {
	timing := members{}
	switch {
	case c.At != nil && c.At.IsZero():
		return nil, errors.New("the change has the zero time as At; give Interval instead")
	case c.At != nil && c.Interval != nil:
		return nil, errors.New("the change has both Interval and At; give one of them")
	case c.At != nil:
		timing["at"], timing["interval"], timing["repeat-for"] = c.At.UTC().Format(time.RFC3339Nano), nil, nil
	case c.Interval != nil:
		timing["interval"], timing["at"] = seconds(*c.Interval), nil
	}
	timing.duration("repeat-for", c.RepeatFor)
	timing.duration("expires-after", c.ExpiresAfter)
	return timing, nil
}

func (c *Change) http() members {
	http := members{}
	for name, text := range map[string]*string{"uri": c.URI, "opaque": c.Opaque, "method": c.Method} {
		if text != nil {
			http[name] = orNull(*text)
		}
	}
	if len(c.Headers) > 0 {
		http["headers"] = c.Headers
	}
	http.duration("timeout", c.Timeout)
	if r := c.Retry; r != nil {
		retry := members{"attempts": orNull(r.Attempts), "factor": orNull(r.Factor)}
		retry.duration("first", &r.First)
		retry.duration("longest", &r.Longest)
		http["retry"] = retry
	}
	return http
}

// duration adds a duration unless the duration is nil.
func (m members) duration(name string, d *time.Duration) {
	switch {
	case d == nil:
	case *d == 0:
		m[name] = nil
	default:
		m[name] = seconds(*d)
	}
}

// orNull is nil for a zero value.
func orNull[T comparable](value T) any {
	var zero T
	if value == zero {
		return nil
	}
	return value
}
