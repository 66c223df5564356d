package ui

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"time"

	"chronos/api/tokens"
	"chronos/api/wire"
	"chronos/scheduler/cluster"
)

// destinationsPage are the busiest destinations of all nodes, and the destinations with a limit or a
// pause.
type destinationsPage struct {
	Rows      []destinationRow
	More      int // destinations that are left out
	Unreached []string
	Change    bool // the operator may pause and resume
}

type destinationRow struct {
	cluster.Destination
	Listed bool     // among the busiest
	Until  *instant // the end of a pause
	Limit  string
	Pause  string // the path of the page that asks about a pause
	Resume string
	Timers string // the list of the destination's timers
}

func (u *UI) destinations(v *visit) (answer, error) {
	status, err := u.Cluster.Status(v.ctx)
	if err != nil {
		return answer{}, err
	}
	page := destinationsPage{Unreached: status.Unreached, Change: v.may(tokens.Write)}
	byName := make(map[string]*destinationRow)
	var rows []*destinationRow
	row := func(name string) *destinationRow {
		if byName[name] == nil {
			query := "?" + url.Values{"destination": {name}}.Encode()
			byName[name] = &destinationRow{Pause: "/ui/destinations/pause" + query, Resume: "/ui/destinations/resume" + query, Timers: "/ui/timers" + query}
			byName[name].Name = name
			if !v.may(tokens.List) {
				byName[name].Timers = ""
			}
			rows = append(rows, byName[name])
		}
		return byName[name]
	}
	for _, d := range status.Destinations {
		one := row(d.Name)
		one.Destination, one.Listed = d, true
	}
	for _, d := range u.Destinations.Destinations() {
		if known := byName[d.Destination]; known == nil && d.Until.IsZero() && d.Limit.Rate == 0 && d.Limit.Concurrency == 0 {
			continue
		}
		one := row(d.Destination)
		if d.Until.After(v.now) {
			one.Until = at(d.Until, v.now)
		}
		one.Limit = limitOf(d.Limit.Rate, d.Limit.Burst, d.Limit.Concurrency)
	}
	slices.SortStableFunc(rows, func(a, b *destinationRow) int { return cmp.Compare(rankOf(a), rankOf(b)) })
	page.More = max(len(rows)-maxRows, 0)
	for _, one := range rows[:min(len(rows), maxRows)] {
		page.Rows = append(page.Rows, *one)
	}
	return answer{page: "destinations", title: "Destinations", tab: "Destinations", data: page}, nil
}

// rankOf puts paused destinations first, and idle destinations last.
func rankOf(d *destinationRow) int {
	switch {
	case d.Until != nil:
		return 0
	case d.Listed:
		return 1
	}
	return 2
}

func limitOf(rate float64, burst, concurrency int) (text string) {
	if rate > 0 {
		text = strconv.FormatFloat(rate, 'g', -1, 64) + "/s, at once " + strconv.Itoa(burst)
	}
	if concurrency > 0 {
		if text != "" {
			text += ", "
		}
		text += strconv.Itoa(concurrency) + " under way"
	}
	return text
}

// askAboutDestination asks whether to pause or resume a destination.
func (u *UI) askAboutDestination(v *visit) (answer, error) {
	destination := v.r.URL.Query().Get("destination")
	page := confirmPage{Post: v.r.URL.EscapedPath(), Back: "/ui/destinations", Hidden: []field{{"destination", destination}}, Facts: []fact{{"Destination", shown(destination)}}}
	switch v.r.PathValue("action") {
	case "pause":
		page.Title, page.Button = "Pause this destination?", "Pause"
		page.Lines = []string{"No node calls the destination until the end of the pause. Timers that come due wait, and are late afterwards."}
		page.Inputs = []input{{Name: "for", Label: "Pause for", Value: "15m", Hint: "a number with a unit: 15m, 2h or 1h30m", Required: true}}
		if destination == "" {
			page.Facts, page.Hidden = nil, nil
			page.Title = "Pause a destination?"
			page.Inputs = append([]input{{Name: "destination", Label: "Destination", Hint: "scheme, host and port: https://api.example.com:443", Required: true}}, page.Inputs...)
		}
	case "resume":
		page.Title, page.Button = "Resume this destination?", "Resume"
		page.Lines = []string{"The timers that wait are called back at once, within the destination's limits."}
	default:
		return answer{}, unknownAction()
	}
	return page.answer("Destinations")
}

func (u *UI) changeDestination(v *visit) (answer, error) {
	destination := v.r.PostForm.Get("destination")
	o := outcome{Tab: "Destinations", Links: []link{{"All destinations", "/ui/destinations"}}}
	v.note("destination", destination)
	switch v.r.PathValue("action") {
	case "pause":
		long, err := time.ParseDuration(v.r.PostForm.Get("for"))
		if err != nil || long <= 0 {
			return answer{}, badField("the length of the pause is not a length of time, such as 15m or 2h; go back, and correct the length")
		}
		pausing, err := u.Destinations.Pause(v.ctx, destination, v.now.Add(long))
		if err != nil {
			return answer{}, explain(err, wire.PauseProblem)
		}
		until := at(pausing.Until, v.now)
		v.note("until", until.Machine)
		o.Title, o.Lines = "The destination is paused", []string{"No node calls " + pausing.Destination + " until " + until.String() + "."}
		o.Lines = append(o.Lines, untold(pausing.Untold)...)
	case "resume":
		pausing, err := u.Destinations.Resume(v.ctx, destination)
		if err != nil {
			return answer{}, explain(err, wire.PauseProblem)
		}
		o.Title, o.Lines = "The destination is resumed", append([]string{"Nodes call " + pausing.Destination + " again."}, untold(pausing.Untold)...)
	default:
		return answer{}, unknownAction()
	}
	return v.done(o)
}

func untold(shards []string) []string {
	if len(shards) == 0 {
		return nil
	}
	return []string{"No answer from " + joined(shards) + ": nodes that reach only these shards hear of the decision later."}
}
