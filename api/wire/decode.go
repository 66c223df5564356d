package wire

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"chronos/scheduler/timer"
)

// Bounds of the ignored members that an answer lists.
const (
	maxIgnored     = 16
	maxIgnoredName = 64 // bytes
)

// Handling says what becomes of members that nobody knows.
type Handling int

// What becomes of unknown members.
const (
	Lenient Handling = iota // unknown members have no effect
	Strict                  // unknown members are refused
)

// Decoder makes a timer of a request body. Every error is an *timer.InvalidError. A known member
// may stand only once in its object; a null for an optional member counts as absent. The zero value is ready to decode bodies in turn, which takes less memory
// than a new Decoder for each body.
type Decoder struct {
	scanner
	handling Handling
	timer    timer.Timer
	ignored  []string // JSON pointers
	entry    tagEntry // being read
	entries  []tagEntry
}

// tagEntry is pointers to an entry of tag-info and to the entry's members. The pointers of the
// first few entries are kept for the next timer.
type tagEntry struct{ pointer, kind, count string }

const keptEntries = 8

// field is a known member.
type field struct {
	name     string
	read     func(*Decoder) error
	optional bool // null is as if the member were absent
}

// Decode reads the body of a POST or PUT. The timer's strings are copies; the ReplicationFactor is
// 0 if the body has none. Timer.Validate checks whether the parts go together; Decode checks only
// absent members, which a Timer can't show. With Lenient, ignored are pointers to members without effect, at most
// as many as an answer should list.
func (d *Decoder) Decode(body []byte, unknown Handling) (asked timer.Timer, ignored []string, err error) {
	d.handling = unknown
	d.readStrictly(body, 0, len(body))
	if err = d.single(); err == nil {
		asked, ignored = d.timer, d.ignored
	}
	d.release()
	d.timer, d.ignored = timer.Timer{}, nil
	return asked, ignored, err
}

// single reads a body with a single timer.
func (d *Decoder) single() error {
	if d.blank() {
		return refuse("", "body-missing", "the body is empty; send the timer as a JSON object")
	}
	if !d.open(jsontext.KindBeginObject) {
		return refuse("", "body-not-object", "the body is not a JSON object; send the timer as one")
	}
	if err := d.content(); err != nil {
		return err
	}
	return d.end()
}

// content reads the members of the timer's object.
func (d *Decoder) content() error {
	seen, err := d.members("", []field{
		{"timing", (*Decoder).timing, false},
		{"callback", (*Decoder).callback, false},
		{"reliability", (*Decoder).reliability, true},
		{"statistics", (*Decoder).statistics, true},
	})
	switch {
	case err != nil:
		return err
	case seen&1 == 0:
		return refuse("/timing", "timing-missing", "timing is missing; give an object with interval or at")
	case seen&2 == 0:
		return refuse("/callback", "callback-missing", "callback is missing; give an object with http")
	}
	return nil
}

// object reads an object with known fields, and returns as bits which of the fields have a value.
func (d *Decoder) object(pointer, code, detail string, fields []field) (seen uint, err error) {
	if !d.open(jsontext.KindBeginObject) {
		return 0, d.mistyped(pointer, code, detail)
	}
	return d.members(pointer, fields)
}

func (d *Decoder) members(pointer string, fields []field) (seen uint, err error) {
	for named := uint(0); ; {
		token, ok, err := d.member(pointer)
		if !ok || err != nil {
			return seen, err
		}
		name := token.String()
		known := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
		if known < 0 {
			if err = d.unknown(pointer, name); err == nil {
				err = d.skip(pointer)
			}
		} else {
			bit := uint(1) << known
			if named&bit != 0 {
				return seen, duplicate(pointer + "/" + fields[known].name)
			}
			named |= bit
			if f := &fields[known]; f.optional && d.null() {
				err = d.skip(pointer + "/" + f.name)
			} else {
				seen |= bit
				err = f.read(d)
			}
		}
		if err != nil {
			return seen, err
		}
	}
}

func duplicate(pointer string) error {
	return refuse(pointer, "member-duplicate", "a member stands twice in its object; send it once")
}

// answeredMembers are members that only the answer to a GET has.
func answeredMembers() []string {
	return []string{"id", "key", "state", "due", "sequence", "attempts", "last-failure"}
}

// escaped is a name in a JSON pointer.
func escaped(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}

// unknown notes an unknown member, or refuses the member.
func (d *Decoder) unknown(pointer, name string) error {
	path := pointer + "/" + escaped(name)
	if len(name) > maxIgnoredName {
		path = pointer
	}
	switch {
	case d.handling == Strict && pointer == "" && slices.Contains(answeredMembers(), name): // a timer that was read and is written back
	case d.handling == Strict:
		return refuse(path, "member-unknown", "this member, or a member of this object, is unknown; correct its name, leave it out, or ask for Prefer: handling=lenient")
	case path == pointer, len(d.ignored) >= maxIgnored, slices.Contains(d.ignored, path):
	default:
		d.ignored = append(d.ignored, path)
	}
	return nil
}

func (d *Decoder) timing() error {
	seen, err := d.object("/timing", "timing-type", "timing is not an object; give one with interval or at", []field{
		{"interval", (*Decoder).interval, true},
		{"repeat-for", (*Decoder).repeatFor, true},
		{"at", (*Decoder).at, true},
		{"expires-after", (*Decoder).expiresAfter, true},
	})
	const interval, at = 1, 4
	switch {
	case err != nil:
		return err
	case seen&interval == 0 && seen&at == 0:
		return refuse("/timing/interval", "interval-missing", "interval is missing or null; give a number of seconds, or at instead")
	case seen&interval != 0 && seen&at != 0 && d.timer.RepeatFor == 0:
		return timer.AtAndInterval()
	}
	return nil
}

func (d *Decoder) interval() (err error) {
	d.timer.Interval, err = d.seconds("/timing/interval", "interval")
	return err
}

func (d *Decoder) repeatFor() (err error) {
	d.timer.RepeatFor, err = d.seconds("/timing/repeat-for", "repeat-for")
	return err
}

func (d *Decoder) expiresAfter() (err error) {
	d.timer.ExpiresAfter, err = d.secondsFrom(timer.MinExpiry, timer.ExpiryRange())
	return err
}

const thousandth = 3 // places behind the point

// seconds reads a number of seconds, rounded up to the next millisecond.
func (d *Decoder) seconds(pointer, name string) (time.Duration, error) {
	text, ok, err := d.number(pointer)
	if err != nil {
		return 0, err
	}
	if !ok {
		return 0, d.mistyped(pointer, name+"-type", name+" is not a number; give seconds as a JSON number, such as 30 or 0.25")
	}
	ms, _, err := scaleDecimal(text, thousandth)
	switch {
	case errors.Is(err, errNegative):
		return 0, refuse(pointer, name+"-negative", name+" is negative; give a number of seconds from 0 up")
	case err != nil, ms > timer.MaxInterval.Milliseconds():
		return 0, refuse(pointer, name+"-too-long", name+" is over 100 years; give at most 3153600000 seconds")
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// secondsFrom reads a number of seconds of at least least, rounded up to the next millisecond. Any other
// value gets the refusal. Timer.Validate checks the upper bound.
func (d *Decoder) secondsFrom(least time.Duration, refusal *timer.InvalidError) (time.Duration, error) {
	ms, err := d.thousandths(least.Milliseconds(), refusal)
	return time.Duration(ms) * time.Millisecond, err
}

// thousandths reads a number of at least so many thousandths, rounded up to whole thousandths. Any other
// value gets the refusal, and so does a number beyond that of the longest interval in seconds.
func (d *Decoder) thousandths(least int64, refusal *timer.InvalidError) (int64, error) {
	text, ok, err := d.number(refusal.Pointer)
	switch {
	case err != nil:
		return 0, err
	case !ok:
		return 0, d.mistyped(refusal.Pointer, refusal.Code, refusal.Detail)
	}
	n, exact, err := scaleDecimal(text, thousandth)
	if err != nil || n < least || n == least && !exact || n > timer.MaxInterval.Milliseconds() {
		return 0, refusal
	}
	return n, nil
}

// str reads a string and copies the string.
func (d *Decoder) str(pointer, code, detail string) (string, error) {
	text, ok, err := d.text(pointer)
	if !ok && err == nil {
		err = d.mistyped(pointer, code, detail)
	}
	return text, err
}

func (d *Decoder) reliability() error {
	_, err := d.object("/reliability", "reliability-type", "reliability is not an object; give one with replication-factor, or leave it out", []field{
		{"replication-factor", (*Decoder).replicationFactor, true},
	})
	return err
}

func (d *Decoder) replicationFactor() error {
	const pointer = "/reliability/replication-factor"
	n, ok, err := d.whole(pointer, timer.MaxReplicationFactor)
	switch {
	case err != nil:
		return err
	case !ok:
		return d.mistyped(pointer, "replication-factor-type", "replication-factor is not a number; give a whole one from 1 to 16, or leave it out")
	case n == 0:
		return refuse(pointer, "replication-factor-range", "replication-factor is a whole number from 1 to 16")
	}
	d.timer.ReplicationFactor = n
	return nil
}

// whole reads a whole number from 1 to limit; n is 0 if the number is outside these bounds or not
// whole. ok is false if no number begins here.
func (d *Decoder) whole(pointer string, limit int64) (n int, ok bool, err error) {
	text, ok, err := d.number(pointer)
	if !ok || err != nil {
		return 0, ok, err
	}
	value, exact, err := scaleDecimal(text, 0)
	if err != nil || !exact || value > limit {
		return 0, true, nil //nolint:nilerr // the caller says what would be right
	}
	return int(value), true, nil
}

func (d *Decoder) statistics() error {
	_, err := d.object("/statistics", "statistics-type", "statistics is not an object; give one with tag-info, or leave it out", []field{
		{"tag-info", (*Decoder).tagInfo, true},
	})
	return err
}

func (d *Decoder) tagInfo() error {
	const pointer = "/statistics/tag-info"
	if !d.open(jsontext.KindBeginArray) {
		return d.mistyped(pointer, "tag-info-type", "tag-info is not an array; give one of objects with type and count, or leave it out")
	}
	for {
		ok, err := d.more(pointer, jsontext.KindEndArray)
		if !ok || err != nil {
			return err
		}
		d.enter(pointer, len(d.timer.Tags))
		d.timer.Tags = append(d.timer.Tags, timer.Tag{Count: 1})
		_, err = d.object(d.entry.pointer, "tag-info-type", "an entry of tag-info is not an object; give one with type and count", []field{
			{"type", (*Decoder).tagType, false},
			{"count", (*Decoder).tagCount, true},
		})
		if err != nil {
			return err
		}
		if d.tag().Type == "" {
			return refuse(d.entry.kind, "tag-info", "each tag-info entry needs a type that is a non-empty string")
		}
	}
}

func (d *Decoder) tag() *timer.Tag { return &d.timer.Tags[len(d.timer.Tags)-1] }

func (d *Decoder) enter(pointer string, n int) {
	if n < len(d.entries) {
		d.entry = d.entries[n]
		return
	}
	pointer += "/" + strconv.Itoa(n)
	d.entry = tagEntry{pointer, pointer + "/type", pointer + "/count"}
	if n < keptEntries {
		d.entries = append(d.entries, d.entry)
	}
}

func (d *Decoder) tagType() (err error) {
	d.tag().Type, err = d.str(d.entry.kind, "tag-info", "each tag-info entry needs a type that is a non-empty string")
	return err
}

func (d *Decoder) tagCount() error {
	const maxCount, detail = 1<<31 - 1, "count is not a whole number from 1 to 2147483647; give one, or leave it out for 1"
	pointer := d.entry.count
	n, ok, err := d.whole(pointer, maxCount)
	switch {
	case err != nil:
		return err
	case !ok:
		return d.mistyped(pointer, "tag-info", detail)
	case n == 0:
		return refuse(pointer, "tag-info", detail)
	}
	d.tag().Count = n
	return nil
}
