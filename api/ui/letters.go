package ui

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"chronos/api/tokens"
	"chronos/api/wire"
	"chronos/scheduler/deadletter"
	"chronos/scheduler/store"
)

// Bounds of the page with groups.
const (
	shownGroups     = 30
	rowsBelowGroups = 50
	longestQuery    = 2000 // bytes of an address
)

// lettersPage is a page of the list of dead letters, with the groups.
type lettersPage struct {
	Filter   letterForm
	Filtered bool
	Groups   []groupRow
	Grouped  deadletter.Groups
	LookedAt int64 // letters in groups
	// MoreGroups is how many groups are left out.
	MoreGroups int
	Hidden     []field // the filter
	Problem    string  // why the groups are not known
	Rows       []letterRow
	Total      int64
	Unreached  []string
	Next       string
	First      string
	Change     bool // the operator may change letters
}

type groupRow struct {
	deadletter.Group
	Size           int64 // letters
	Oldest, Newest *instant
	Path           string // the list of the letters of the group
}

type letterRow struct {
	ID, Path, Key    string
	At               *instant
	Reason, Callback string
	Attempts         int
	Problem          string
}

// letterForm is the filter of letters as the operator wrote the filter.
type letterForm struct {
	Key, KeyPrefix, Reason, ReasonIs, Callback, Destination, Since, Until string
}

// named has the fields of the form by the names in the address.
func (f *letterForm) named() formFields {
	return formFields{
		{"key", &f.Key}, {"key-prefix", &f.KeyPrefix}, {"reason", &f.Reason}, {"reason-is", &f.ReasonIs}, {"callback", &f.Callback},
		{"destination", &f.Destination}, {"since", &f.Since}, {"until", &f.Until},
	}
}

// readLetterFilter reads a filter. Empty fields of the form count as absent.
func readLetterFilter(values url.Values) (form letterForm, f store.LetterFilter, err error) {
	for _, one := range form.named() {
		*one.at = values.Get(one.name)
		if one.at != &form.ReasonIs { // the whole reason, with spaces at the ends
			*one.at = strings.TrimSpace(*one.at)
		}
	}
	f = store.LetterFilter{Key: form.Key, KeyPrefix: form.KeyPrefix, Reason: form.Reason, ReasonIs: form.ReasonIs, Callback: form.Callback, Destination: form.Destination}
	if f.Since, err = readInstant(form.Since); err != nil {
		return form, f, err
	}
	f.Until, err = readInstant(form.Until)
	return form, f, err
}

func (u *UI) letters(v *visit) (answer, error) {
	values := v.r.URL.Query()
	form, filter, err := readLetterFilter(values)
	if err != nil {
		return answer{}, err
	}
	cursor := values.Get("cursor")
	limit, grouped := maxRows, filter.IsZero() && cursor == ""
	if grouped {
		limit = rowsBelowGroups
	}
	page, err := u.Letters.List(v.ctx, store.LetterQuery{Filter: filter, Cursor: cursor, Limit: limit})
	if err != nil {
		return answer{}, explain(err, wire.LetterProblem)
	}
	view := lettersPage{Filter: form, Filtered: !filter.IsZero(), Total: page.Total, Unreached: page.Unreached, Change: v.may(tokens.Admin)}
	if grouped {
		u.addGroups(v, &view)
	}
	for i := range page.Letters[:min(len(page.Letters), limit)] {
		view.Rows = append(view.Rows, letterRowOf(&page.Letters[i], v.now))
	}
	view.Hidden = form.named().hidden()
	address := form.named().query()
	if cursor != "" {
		view.First = "/ui/dead?" + address.Encode()
	}
	if page.Next != "" {
		address.Set("cursor", page.Next)
		view.Next = "/ui/dead?" + address.Encode()
	}
	return answer{page: "dead", title: "Dead letters", tab: "Dead letters", data: view}, nil
}

// addGroups adds the groups to a page.
func (u *UI) addGroups(v *visit, view *lettersPage) {
	groups, err := u.Letters.Groups(v.ctx)
	if err != nil {
		view.Problem = sentence(wire.LetterProblem(err).Detail)
		return
	}
	view.Grouped, view.LookedAt, view.Unreached = groups, int64(groups.LookedAt), unique(view.Unreached, groups.Unreached)
	view.MoreGroups = max(len(groups.Groups)-shownGroups, 0)
	for _, g := range groups.Groups[:min(len(groups.Groups), shownGroups)] {
		form := letterForm{Destination: g.Destination, ReasonIs: g.Reason}
		row := groupRow{Group: g, Size: int64(g.Count), Oldest: at(g.Oldest, v.now), Newest: at(g.Newest, v.now)}
		if query := form.named().query().Encode(); query != "" && len(query) <= longestQuery {
			row.Path = "/ui/dead?" + query
		}
		view.Groups = append(view.Groups, row)
	}
}

func letterRowOf(l *store.Letter, now time.Time) letterRow {
	row := letterRow{ID: l.ID, Path: "/ui/dead/" + url.PathEscape(l.ID), Key: l.Key, At: at(l.At, now), Reason: l.Reason}
	if l.Err != nil {
		row.Problem = "the record can't be read"
		return row
	}
	row.Callback, row.Attempts = shownURI(&l.Record.Timer.Callback), l.Record.State.Attempt
	return row
}

// letterPage is one dead letter.
type letterPage struct {
	letterRow
	Shard  string
	Facts  []fact
	Text   string // of a record that can't be read, without secrets
	Opaque string
	Bytes  int
	Shows  bool
	Change bool
	// OpaqueSize is Bytes for display.
	OpaqueSize string
}

func (u *UI) letter(v *visit) (answer, error) {
	l, err := u.Letters.Letter(v.ctx, v.r.PathValue("id"))
	if err != nil {
		return answer{}, explain(err, wire.LetterProblem)
	}
	page := letterPage{letterRow: letterRowOf(&l, v.now), Shard: l.Shard, Change: v.may(tokens.Admin)}
	view := wire.ViewWholeLetter(&l)
	if view.Problem != "" {
		page.Problem, page.Text = sentence(view.Problem), view.Text
		return answer{page: "letter", title: "Dead letter", tab: "Dead letters", data: page}, nil
	}
	page.Facts = append(factsOf(&l.Record, v.now), fact{"webhook-id", shown(view.WebhookID)})
	page.OpaqueSize = size(int64(len(l.Record.Timer.Callback.Opaque)))
	page.Bytes, page.Shows = len(l.Record.Timer.Callback.Opaque), v.r.URL.Query().Get("opaque") == "shown"
	if page.Shows {
		page.Opaque = l.Record.Timer.Callback.Opaque
	}
	return answer{page: "letter", title: "Dead letter of " + l.Key, tab: "Dead letters", data: page}, nil
}

// askAboutLetter asks whether to change a letter.
func (u *UI) askAboutLetter(v *visit) (answer, error) {
	l, err := u.Letters.Letter(v.ctx, v.r.PathValue("id"))
	if err != nil {
		return answer{}, explain(err, wire.LetterProblem)
	}
	row := letterRowOf(&l, v.now)
	page := confirmPage{Post: v.r.URL.EscapedPath(), Back: row.Path, Facts: []fact{
		{"Timer", shown(l.Key)}, {"Given up", shown(row.At.String())}, {"Reason", shown(l.Reason)}, {"Callback", shown(row.Callback)},
	}}
	switch v.r.PathValue("action") {
	case "fire":
		page.Title, page.Button = "Fire this dead letter again?", "Fire again"
		page.Lines = []string{"A timer with the same key, callback and tags is made, and is due at once. When the timer is acknowledged, the letter goes."}
	case "delete":
		page.Title, page.Button, page.Danger = "Delete this dead letter?", "Delete the letter", true
		page.Lines = []string{"The callback is never made. A deleted letter does not come back."}
	default:
		return answer{}, unknownAction()
	}
	return page.answer("Dead letters")
}

func (u *UI) changeLetter(v *visit) (answer, error) {
	id := v.r.PathValue("id")
	o := outcome{Tab: "Dead letters", Links: []link{{"All dead letters", "/ui/dead"}}}
	switch v.r.PathValue("action") {
	case "fire":
		receipt, err := u.Letters.Fire(v.ctx, id)
		if err != nil {
			return answer{}, explain(err, wire.LetterProblem)
		}
		o.Title, o.Lines = "The dead letter is fired again", []string{"The timer " + receipt.ID.Key + " is due now, with all its attempts."}
		o.Links = append([]link{{"Look at the timer", "/ui/timers/" + receipt.ID.String()}}, o.Links...)
	case "delete":
		if err := u.Letters.Delete(v.ctx, id); err != nil {
			return answer{}, explain(err, wire.LetterProblem)
		}
		o.Title, o.Lines = "The dead letter is deleted", []string{"Its callback is not made."}
	default:
		return answer{}, unknownAction()
	}
	return v.done(o)
}

// matchLetters begins a change to all letters that match.
func (u *UI) matchLetters(v *visit) (answer, error) {
	action := v.r.PostForm.Get("action")
	if action != "fire" && action != "delete" {
		return answer{}, unknownAction()
	}
	form, filter, err := readLetterFilter(v.r.PostForm)
	if err != nil {
		return answer{}, err
	}
	if filter.IsZero() && v.r.PostForm.Get("all") != "true" {
		return answer{}, wire.NewProblem(http.StatusBadRequest, "filter-missing", "no filter is set, so all dead letters are meant; tick the box that says so, or set a filter")
	}
	j := &manyLetters{letters: u.Letters, form: form, filter: filter, fires: action == "fire"}
	if filter.Until.IsZero() {
		j.filter.Until = v.now // a letter that comes after the count is no part of the change
	}
	return u.begin(v, j)
}

func factText(name, value string) fact { return fact{name, shown(value)} }
