package ui

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"time"

	"chronos/api/tokens"
	"chronos/api/wire"
	"chronos/scheduler/listing"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// timerPage is one timer.
type timerPage struct {
	ID, Key   string
	Path      string
	Version   string // for the condition of a change
	State     string
	Late      bool // due, and not yet called back
	Next      *instant
	Pop       string // "3 of 10"
	Attempts  int
	Failure   *store.Failure
	FailedAt  *instant
	Facts     []fact
	Pops      []pop
	MorePops  int
	Copies    []copyView
	Problem   string // why the copies are not known
	Unreached []string
	Opaque    string // if asked for
	Bytes     int    // of the opaque
	Shows     bool   // the opaque
	// OpaqueSize is Bytes for display, and More is MorePops.
	OpaqueSize string
	More       int64
	Curl       string
	LeftOut    []string // of the command
	Change     bool     // the operator may change the timer
}

type copyView struct {
	listing.Copy
	Place              string
	Due, Look          *instant
	Sequence, Attempts int
}

func (u *UI) timer(v *visit) (answer, error) {
	found, err := u.find(v)
	if err != nil {
		return answer{}, err
	}
	record, id := &found.Record, found.Record.ID
	page := timerPage{
		ID: id.String(), Key: id.Key, Path: "/ui/timers/" + id.String(), Version: record.State.Written().String(), State: stateOf(&found),
		Next: at(found.Due, v.now), Late: found.DueIn < -time.Second, Attempts: record.State.Attempt, Facts: factsOf(record, v.now),
		Pop:   fmt.Sprintf("%s of %s", number(int64(record.State.Seq)), number(int64(record.Timer.Pops()))),
		Bytes: len(record.Timer.Callback.Opaque), Shows: v.r.URL.Query().Get("opaque") == "shown", Change: v.may(tokens.Write),
	}
	if !record.Failure.IsZero() {
		page.Failure, page.FailedAt = &record.Failure, at(record.Failure.At, v.now)
	}
	page.Pops, page.MorePops = popsOf(&found, v.now)
	if page.Shows {
		page.Opaque = record.Timer.Callback.Opaque
	}
	page.OpaqueSize, page.More = size(int64(page.Bytes)), int64(page.MorePops)
	page.Curl, page.LeftOut = curlOf(record, page.Shows)
	page.Copies, page.Unreached, err = u.copies(v, id)
	if err != nil {
		page.Problem = sentence(problemOf(err).Detail)
	}
	return answer{page: "timer", title: "Timer " + id.Key, tab: "Timers", data: page}, nil
}

// find reads the timer of the address. The record has the id of the address, which is harmless.
func (u *UI) find(v *visit) (found store.ReadResult, err error) {
	id, err := timer.ParseID(v.r.PathValue("id"))
	if err != nil {
		return found, err
	}
	if found, err = u.Timers.Lookup(v.ctx, id); err != nil {
		return found, u.timerGone(v.ctx, id, err)
	}
	found.Record.ID = id
	return found, nil
}

// timerGone explains why there is no timer, with the shards that gave no answer.
func (u *UI) timerGone(ctx context.Context, id timer.ID, err error) error {
	if !errors.Is(err, timer.ErrUnavailable) {
		return err
	}
	copies, other := u.Timers.Copies(ctx, id)
	if other != nil {
		return err
	}
	p, _ := wire.ProblemOf(err)
	var away []string
	for _, c := range copies {
		if c.State == listing.CopyUnreached {
			away = append(away, c.Shard)
		}
	}
	if len(away) > 0 {
		p.Detail += "; no answer from " + wire.Printable(joined(unique(away)))
	}
	return p
}

func (u *UI) copies(v *visit, id timer.ID) (views []copyView, unreached []string, err error) {
	copies, err := u.Timers.Copies(v.ctx, id)
	if err != nil {
		return nil, nil, err
	}
	for i, c := range copies {
		if c.State == listing.CopyUnreached {
			unreached = append(unreached, c.Shard)
		}
		if i < maxRows {
			views = append(views, copyView{
				Copy: c, Place: placeOf(c), Due: at(c.Due, v.now), Look: at(c.Look, v.now), Sequence: c.Version.Seq, Attempts: c.Version.Attempt,
			})
		}
	}
	return views, unique(unreached), nil
}

func placeOf(c listing.Copy) string {
	if !c.Owner {
		return "no owner"
	}
	if c.Rank == 0 {
		return "primary"
	}
	return "backup " + strconv.Itoa(c.Rank)
}

func stateOf(found *store.ReadResult) string {
	switch {
	case found.Leased:
		return string(listing.Leased)
	case found.Record.State.Attempt > 0:
		return string(listing.Retrying)
	}
	return string(listing.Waiting)
}

// factsOf are what the client asked for.
func factsOf(record *store.Record, now time.Time) (facts []fact) {
	t, c := &record.Timer, &record.Timer.Callback
	add := func(name string, value template.HTML) { facts = append(facts, fact{name, value}) }
	uri := shownURI(c)
	add("Callback", shown(c.Verb()+" "+uri)+rest(uri))
	switch {
	case !t.At.IsZero() && t.RepeatFor == 0:
		add("Timing", shown("once, at "+at(t.At, now).String()))
	case !t.At.IsZero():
		add("Timing", shown("every "+brief(t.Interval)+" for "+brief(t.RepeatFor)+", first at "+at(t.At, now).String()))
	case t.RepeatFor == 0 && t.Interval == 0:
		add("Timing", "once, at once after the write")
	case t.RepeatFor == 0:
		add("Timing", shown("once, "+brief(t.Interval)+" after the write"))
	default:
		add("Timing", shown("every "+brief(t.Interval)+" for "+brief(t.RepeatFor)))
	}
	if t.ExpiresAfter > 0 {
		add("Attempts end", shown(brief(t.ExpiresAfter)+" after a pop is due"))
	}
	if c.Timeout > 0 {
		add("Timeout", shown(brief(c.Timeout)))
	}
	if r := c.Retry; r != (timer.Retry{}) {
		add("Retries", shown(retryOf(r)))
	}
	for name, value := range c.Headers.Redacted().All() {
		add("Header "+cutHeader(name), shown(value))
	}
	for _, tag := range t.Tags {
		add("Tag", tagged(tag.Type)+template.HTML(" × "+strconv.Itoa(tag.Count))) //nolint:gosec // a number
	}
	add("Copies asked for", shown(strconv.Itoa(t.ReplicationFactor)))
	if record.State.Version != 0 {
		add("Written", shown(at(record.State.Written().Time(), now).String()))
	}
	if record.LeftOut > 0 {
		add("Pops left out", shown(number(int64(record.LeftOut))))
	}
	return facts
}

// rest has the whole of a text that shown cuts.
func rest(text string) template.HTML {
	if len(text) <= shortText {
		return ""
	}
	return `<details><summary>The whole URI</summary>` + whole(text) + `</details>`
}

func cutHeader(name string) string { return name[:min(len(name), tagText)] }

func retryOf(r timer.Retry) (text string) {
	if r.Attempts > 0 {
		text = "at most " + plural(int64(r.Attempts), "attempt", "attempts") + ", "
	}
	return text + "first pause up to " + brief(r.Pause(1)) + ", second up to " + brief(r.Pause(2))
}

// askAboutTimer asks whether to change a timer.
func (u *UI) askAboutTimer(v *visit) (answer, error) {
	found, err := u.find(v)
	if err != nil {
		return answer{}, err
	}
	record, id := &found.Record, found.Record.ID
	page := confirmPage{
		Post: v.r.URL.EscapedPath(), Back: "/ui/timers/" + id.String(), Hidden: []field{{"version", record.State.Written().String()}},
		Facts: []fact{{"Timer", shown(id.String())}, {"Callback", shown(record.Timer.Callback.Verb() + " " + shownURI(&record.Timer.Callback))}},
	}
	if due := at(found.Due, v.now); due != nil {
		page.Facts = append(page.Facts, fact{"Next pop", shown(due.String())})
	}
	switch v.r.PathValue("action") {
	case "delete":
		page.Title, page.Button, page.Danger = "Delete this timer?", "Delete the timer", true
		page.Lines = []string{"No callback of the timer starts afterwards. A callback that is under way now may still end.", "A deleted timer does not come back."}
	case "fire":
		page.Title, page.Button = "Fire this timer now?", "Fire now"
		page.Lines = []string{"The next pop is called back at once. The pops behind keep their times."}
	case "delay":
		page.Title, page.Button = "Delay this timer?", "Delay"
		page.Lines = []string{"The next pop comes later by this time, and so do all pops behind."}
		page.Inputs = []input{{Name: "by", Label: "Delay by", Value: "5m", Hint: "a number with a unit: 30s, 5m, 2h or 1h30m", Required: true}}
	default:
		return answer{}, unknownAction()
	}
	return page.answer("Timers")
}

// changeTimer carries out a change, if the timer is as the page has shown the timer.
func (u *UI) changeTimer(v *visit) (answer, error) {
	id, err := timer.ParseID(v.r.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	version, err := timer.ParseVersion(v.r.PostForm.Get("version"))
	if err != nil {
		return answer{}, badField("the form lacks the version of the timer; go back to the timer, and begin anew")
	}
	cond := timer.Condition{OneOf: []timer.Version{version}}
	o := outcome{Tab: "Timers", Links: []link{{"Back to the timer", "/ui/timers/" + id.String()}, {"All timers", "/ui/timers"}}}
	var receipt timer.Receipt
	switch v.r.PathValue("action") {
	case "delete":
		receipt, err = u.Timers.DeleteIf(v.ctx, id, cond)
		o.Title, o.Links = "The timer is deleted", o.Links[1:]
		o.Lines = []string{"No callback of " + id.Key + " starts from now on."}
		if receipt.InFlight {
			o.Lines = []string{"A callback of " + id.Key + " was about to start: none starts later than 2 s from now."}
		}
	case "fire":
		receipt, err = u.Timers.Fire(v.ctx, id, cond)
		o.Title, o.Lines = "The timer fires", []string{"The next pop of " + id.Key + " is due now."}
	case "delay":
		var by time.Duration
		if by, err = delayOf(v.r.PostForm.Get("by")); err != nil {
			return answer{}, err
		}
		v.note("delay", by.String())
		receipt, err = u.Timers.Delay(v.ctx, id, cond, by)
		o.Title, o.Lines = "The timer is delayed", []string{"The next pop of " + id.Key + ", and the pops behind, come " + brief(by) + " later."}
	default:
		return answer{}, unknownAction()
	}
	if err != nil {
		return answer{}, err
	}
	if receipt.Unreached > 0 {
		o.Lines = append(o.Lines, plural(int64(receipt.Unreached), "shard of the timer was", "shards of the timer were")+" not reached. The change holds while a shard that was told can be reached; the others follow.")
	}
	return v.done(o)
}

// delayOf reads the length of a delay.
func delayOf(text string) (time.Duration, error) {
	by, err := time.ParseDuration(text)
	if err != nil || by < time.Millisecond || by > timer.MaxInterval || by%time.Millisecond != 0 {
		return 0, wire.NewProblem(http.StatusBadRequest, "by-malformed", "the delay is not a length of time from 1ms to 100 years, such as 30s, 5m or 2h; go back, and correct the delay")
	}
	return by, nil
}
