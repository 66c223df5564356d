package api

import (
	"strings"
	"testing"
	"unicode/utf8"

	"chronos/api/wire"
	"chronos/scheduler/listing"
	"chronos/scheduler/timer"
)

// Whatever stands in a query, the query is refused with a code and a printable detail, or means a page
// within all bounds and within the prefix.
func FuzzReadListing(f *testing.F) {
	for _, query := range []string{
		"", "key=tea&key-prefix=te&text=abc&state=waiting&destination=https://h:443&tag=CALL&limit=1000&cursor=xy", "due-after=2030-01-31T12:00:00Z;due-before=2030-02-01T00:00:00Z",
		"limit=1001", "text=%ff%ff%ff", "a=%zz", ";;;&&&", "key=a&key=b", "%1b=x", "time-from=1", "destination=https://u:p@h",
	} {
		f.Add(query, "a.")
		f.Add(query, "")
	}
	f.Fuzz(func(t *testing.T, query, prefix string) {
		q, err := readListing(query, prefix)
		if err != nil {
			p, known := wire.ProblemOf(err)
			if !known || p.Status/100 != 4 || p.Code == "" || p.Pointer != nil || p.Detail != strings.ToValidUTF8(p.Detail, "") || strings.ContainsFunc(p.Detail, func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Errorf("%q is refused with %+v", query, p)
			}
			return
		}
		f := &q.Filter
		switch {
		case q.Limit < 1 || q.Limit > listing.MaxLimit:
			t.Errorf("%q has the limit %d", query, q.Limit)
		case f.Key != "" && !timer.ValidKey(f.Key):
			t.Errorf("%q has the key %q", query, f.Key)
		case f.Text != "" && utf8.RuneCountInString(f.Text) < listing.MinText:
			t.Errorf("%q has the text %q", query, f.Text)
		case !f.DueAfter.IsZero() && !f.DueBefore.IsZero() && !f.DueAfter.Before(f.DueBefore):
			t.Errorf("%q is from %v to %v", query, f.DueAfter, f.DueBefore)
		case prefix != "" && (!strings.HasPrefix(f.KeyPrefix, prefix) || f.Key != "" && !strings.HasPrefix(f.Key, prefix)):
			t.Errorf("%q with the prefix %q has the filter %+v", query, prefix, f)
		}
		for _, text := range []string{f.KeyPrefix, f.Text, f.Tag, f.Destination, q.Cursor} {
			if len(text) > max(maxText, len(prefix)) || prefix == "" && !utf8.ValidString(text) {
				t.Errorf("%q has %q", query, text)
			}
		}
	})
}
