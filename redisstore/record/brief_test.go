package record

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

func TestParseBrief(t *testing.T) {
	b, rev, err := ParseBrief(`1 7000 a%20b=2,c=1 01a1fb841564b7e9 http://h/"x"\\u00e4`)
	if err == nil {
		t.Errorf("a quote within: %+v, %v", b, rev)
	}
	b, rev, err = ParseBrief(`1 7000 a%20b=2,c=1 01a1fb841564b7e9 http://h/\"x\"\\ y`)
	want := &store.Brief{
		Picked: true, RepeatFor: 7 * time.Second, Tags: []timer.Tag{{Type: "a b", Count: 2}, {Type: "c", Count: 1}}, URI: `http://h/"x"\ y`,
	}
	if diff := cmp.Diff(want, b); diff != "" || err != nil || rev != 0x01a1fb841564b7e9 {
		t.Errorf("%v, revision %v (-want +got):\n%s", err, rev, diff)
	}
	if b, rev, err := ParseBrief("0 0 - - "); err != nil || rev != 0 || b.Picked || b.URI != "" || b.Tags != nil {
		t.Errorf("%+v, %v, %v", b, rev, err)
	}
	for _, malformed := range []string{"", "1 2 3 4", "1 x - - u", "1 -1 - - u", "1 0 a - u", "1 0 a=0 - u", "1 0 - zz u", "1 0 - 0000000000000000 u", "1 0 - - \\", "1 0 - - \xff"} {
		if b, _, err := ParseBrief(malformed); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %+v, %v", malformed, b, err)
		}
	}
}

// A text is found in a record as the record has the text.
func TestQuote(t *testing.T) {
	for _, text := range []string{"plain", `a"b\c`, "ä<&>世", "\u2028", "tab\t"} {
		body, err := appendSpecification(nil, &timer.Timer{Callback: timer.Callback{URI: "x" + text + "y"}})
		if err != nil || !strings.Contains(string(body), "x"+Quote(text)+"y") {
			t.Errorf("%q is not in %s, %v", Quote(text), body, err)
		}
	}
}
