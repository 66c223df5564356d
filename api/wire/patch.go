package wire

import (
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"chronos/scheduler/timer"
)

// maxChanges bounds the members of an object of a patch, and so the time for comparing the members with each
// other. A patch that removes all headers of a timer and sets new ones has fewer.
const maxChanges = 256

// Patch is a JSON merge patch (RFC 7396) of a timer.
type Patch struct {
	value  jsontext.Value
	begins bool // the patch has timing
}

// ReadPatch reads the body of a PATCH. The patch aliases the body. Every error is an *timer.InvalidError.
func ReadPatch(body []byte) (Patch, error) {
	var d Decoder
	d.readStrictly(body, 0, len(body))
	switch {
	case d.blank():
		return Patch{}, refuse("", "body-missing", "the body is empty; send the members to change as a JSON object")
	case d.json.PeekKind() != jsontext.KindBeginObject:
		return Patch{}, refuse("", "body-not-object", "the body is not a JSON object; send the members to change as one")
	}
	if err := d.skip(""); err != nil {
		return Patch{}, err
	}
	if err := d.end(); err != nil {
		return Patch{}, err
	}
	changes, err := membersOf(body, "")
	if err != nil {
		return Patch{}, err
	}
	return Patch{value: body, begins: indexOf(changes, "timing", exactly) >= 0}, nil
}

// Apply makes the timer that the patch makes of t, and leaves t unchanged. begins reports whether the
// patch has timing, so that the timer begins anew; otherwise the timing of t stays. ignored is as of
// Decoder.Decode, and so are the errors. Apply is safe for concurrent use.
func (p Patch) Apply(t *timer.Timer, unknown Handling) (patched timer.Timer, begins bool, ignored []string, err error) {
	stored, err := marshal(storedView(t))
	if err != nil {
		return timer.Timer{}, false, nil, err
	}
	merged, err := appendMerged(make([]byte, 0, len(stored)+len(p.value)), stored, p.value, "")
	if err != nil {
		return timer.Timer{}, false, nil, err
	}
	if patched, ignored, err = new(Decoder).Decode(merged, unknown); err != nil {
		return timer.Timer{}, false, nil, err
	}
	if !p.begins {
		patched.Interval, patched.At, patched.RepeatFor, patched.ExpiresAfter = t.Interval, t.At, t.RepeatFor, t.ExpiresAfter
	}
	return patched, p.begins, ignored, nil
}

// storedView is the timer as a PUT would give the timer, with all secrets. The view always has headers.
func storedView(t *timer.Timer) TimerView {
	view := viewTimer(t)
	http := &view.Callback.HTTP
	if http.URI, http.Headers = t.Callback.URI, headersOf(t.Callback.Headers); http.Headers == nil {
		http.Headers = []byte("{}")
	}
	return view
}

// member is a member of an object.
type member struct {
	name  string
	value jsontext.Value
}

// removed reports whether a member of a patch removes the member of the target.
func (m *member) removed() bool { return m.value.Kind() == jsontext.KindNull }

// appendMerged is MergePatch of RFC 7396, 2, with the members in the order of the target, and with headers
// found in any case of their names. A null for a member that the target lacks stays, except in headers: the
// Decoder takes the null for an absent member, and notices a name that is unknown. A name that stands
// twice in an object of the patch is refused.
func appendMerged(dst []byte, target, patch jsontext.Value, pointer string) ([]byte, error) {
	if target.Kind() != jsontext.KindBeginObject || patch.Kind() != jsontext.KindBeginObject {
		return append(dst, patch...), nil
	}
	members, err := membersOf(target, pointer)
	if err != nil {
		return nil, err
	}
	changes, err := membersOf(patch, pointer)
	if err != nil {
		return nil, err
	}
	same, inHeaders := exactly, pointer == headersPointer
	if inHeaders {
		same = strings.EqualFold
	}
	dst = append(dst, '{')
	for _, m := range members {
		switch at := indexOf(changes, m.name, same); {
		case at < 0:
			dst = append(appendName(dst, m.name), m.value...)
		case !changes[at].removed():
			if dst, err = appendMerged(appendName(dst, m.name), m.value, changes[at].value, memberPointer(pointer, m.name)); err != nil {
				return nil, err
			}
		}
	}
	for i, change := range changes {
		switch {
		case indexOf(changes[:i], change.name, same) >= 0:
			return nil, duplicate(memberPointer(pointer, change.name))
		case inHeaders && change.removed(), indexOf(members, change.name, same) >= 0:
		default:
			dst = append(appendName(dst, change.name), change.value...)
		}
	}
	return append(dst, '}'), nil
}

// appendName begins a member of the object that is being written.
func appendName(dst []byte, name string) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	return append(appendString(dst, name), ':')
}

// memberPointer leads to a member of an object, or to the object if the name is too long to be known.
func memberPointer(pointer, name string) string {
	switch {
	case pointer == headersPointer:
		return timer.HeaderPointer(name)
	case len(name) > maxIgnoredName:
		return pointer
	}
	return pointer + "/" + escaped(name)
}

func exactly(a, b string) bool { return a == b }

func indexOf(members []member, name string, same func(a, b string) bool) int {
	return slices.IndexFunc(members, func(m member) bool { return same(m.name, name) })
}

// membersOf takes a valid object apart. The values alias the object.
func membersOf(object jsontext.Value, pointer string) (members []member, err error) {
	var s scanner
	s.readStrictly(object, 0, len(object))
	for s.open(jsontext.KindBeginObject); ; {
		token, more, err := s.member(pointer)
		if !more || err != nil {
			return members, err
		}
		if len(members) == maxChanges {
			return nil, refuse(pointer, "member-unknown", "an object of the patch has more than "+strconv.Itoa(maxChanges)+" members, and a timer has fewer; leave out the unknown members")
		}
		name := token.String()
		first, next, err := s.part()
		if err != nil {
			return nil, err
		}
		members = append(members, member{name, object[first:next]})
	}
}
