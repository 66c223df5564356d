package wire

import (
	"bytes"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"chronos/scheduler/timer"
)

// Patch is a JSON merge patch (RFC 7396) of a timer.
type Patch struct {
	value  jsontext.Value
	begins bool // the patch has timing
}

// ReadPatch reads the body of a PATCH. Every error is an *timer.InvalidError.
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
	p := Patch{value: bytes.Clone(body)}
	members, _ := membersOf(p.value)
	p.begins = indexOf(members, "timing", exactly) >= 0
	return p, nil
}

// Apply makes the timer that the patch makes of t, and leaves t unchanged. begins reports whether the
// patch has timing, so that the timer begins anew; otherwise the timing of t stays. ignored is as of
// Decoder.Decode, and so are the errors. Apply is safe for concurrent use.
func (p Patch) Apply(t *timer.Timer, unknown Handling) (patched timer.Timer, begins bool, ignored []string, err error) {
	stored, err := marshal(storedView(t))
	if err != nil {
		return timer.Timer{}, false, nil, err
	}
	merged, err := merge(stored, p.value, "")
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

// storedView is the timer as a PUT would give the timer, with all secrets.
func storedView(t *timer.Timer) TimerView {
	view := viewTimer(t)
	view.Callback.HTTP.URI, view.Callback.HTTP.Headers = t.Callback.URI, headersOf(t.Callback.Headers)
	return view
}

// member is a member of an object.
type member struct {
	name  string
	value jsontext.Value
}

// merge is MergePatch of RFC 7396, 2, with the members in the order of the target. In the headers of a
// callback a name counts in any case of letters. A name that stands twice in an object of the patch is
// refused.
func merge(target, patch jsontext.Value, pointer string) (jsontext.Value, error) {
	changes, is := membersOf(patch)
	if !is {
		return patch, nil
	}
	members, _ := membersOf(target)
	same := exactly
	if pointer == "/callback/http/headers" {
		same = strings.EqualFold
	}
	for i, change := range changes {
		if indexOf(changes[:i], change.name, same) >= 0 {
			return nil, duplicate(pointer + "/" + escaped(change.name))
		}
		at := indexOf(members, change.name, same)
		switch {
		case change.value.Kind() == jsontext.KindNull && at >= 0:
			members = slices.Delete(members, at, at+1)
			continue
		case change.value.Kind() == jsontext.KindNull:
			continue
		case at < 0:
			at, members = len(members), append(members, member{name: change.name})
		}
		merged, err := merge(members[at].value, change.value, pointer+"/"+escaped(change.name))
		if err != nil {
			return nil, err
		}
		members[at].value = merged
	}
	return objectOf(members), nil
}

func exactly(a, b string) bool { return a == b }

func indexOf(members []member, name string, same func(a, b string) bool) int {
	return slices.IndexFunc(members, func(m member) bool { return same(m.name, name) })
}

// membersOf takes an object apart; is is false if the value is no object. The values alias value, which
// was read before, and is without a mistake.
func membersOf(value jsontext.Value) (members []member, is bool) {
	if value.Kind() != jsontext.KindBeginObject {
		return nil, false
	}
	d := jsontext.NewDecoder(bytes.NewReader(value), jsontext.AllowDuplicateNames(true))
	if _, err := d.ReadToken(); err != nil {
		return nil, false
	}
	for d.PeekKind() == jsontext.KindString {
		name, err := d.ReadToken()
		if err != nil {
			return nil, false
		}
		m := member{name: name.String()}
		if m.value, err = d.ReadValue(); err != nil {
			return nil, false
		}
		m.value = m.value.Clone()
		members = append(members, m)
	}
	return members, true
}

func objectOf(members []member) jsontext.Value {
	object := []byte{'{'}
	for i, m := range members {
		if i > 0 {
			object = append(object, ',')
		}
		object = append(appendString(object, m.name), ':')
		object = append(object, m.value...)
	}
	return append(object, '}')
}

