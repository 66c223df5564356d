package ui

import (
	"errors"
	"time"

	"chronos/api/tokens"
	"chronos/scheduler/cluster"
	"chronos/scheduler/forecast"
)

// Buckets of the charts of the load to come.
const (
	minutes = 60
	hours   = forecast.MaxBuckets
	aDay    = 24 // hours
)

// overviewPage is the first page.
type overviewPage struct {
	Status *statusView
	Load   *loadView
}

// statusView is the cluster at a glance.
type statusView struct {
	cluster.Status
	Sampled   int64 // records that the number of timers is from
	UnderWay  int64 // callbacks
	LiveNodes int
	UpShards  int
	Lists     bool          // the operator may look at dead letters
	Overdue   time.Duration // of the timer that has been due longest
	Due       int64         // copies that a node should have looked at
}

// loadView is the load to come and the lateness of the last hour.
type loadView struct {
	Minute, Hour, Day figure
	Minutes, Hours    chart
	Late              chart
	Unreached         []string
	Problem           string // why nothing is known of the load; "" if the load is known
}

// figure is a number of timers and of copies.
type figure struct{ Timers, Copies int64 }

func (u *UI) overview(v *visit) (answer, error) {
	a := answer{page: "overview", title: "Overview", tab: "Overview"}
	var page overviewPage
	if v.part() != "load" {
		status, err := u.status(v)
		if err != nil {
			return a, err
		}
		page.Status = status
	}
	if v.part() != "live" {
		load, err := u.load(v)
		if err != nil && v.part() == "load" {
			return a, err
		}
		if err != nil {
			load.Problem = sentence(problemOf(err).Detail)
		}
		page.Load = load
	}
	a.data = page
	return a, nil
}

func (u *UI) status(v *visit) (*statusView, error) {
	status, err := u.Cluster.Status(v.ctx)
	if err != nil {
		return nil, err
	}
	view := &statusView{Status: status, Sampled: int64(status.Timers.Sampled), UnderWay: int64(status.InFlight), Lists: v.may(tokens.List)}
	view.LiveNodes = len(status.Nodes)
	for _, a := range status.Alarms {
		if a.Code == cluster.NodeSilent {
			view.LiveNodes--
		}
	}
	for _, s := range status.Shards {
		if s.Up {
			view.UpShards++
		}
		view.Overdue, view.Due = max(view.Overdue, s.OldestDue), view.Due+s.Due
	}
	return view, nil
}

// load is never nil: without the load the view has the lateness.
func (u *UI) load(v *visit) (*loadView, error) {
	view := &loadView{Late: lateChart(u.History.History(), v.now)}
	near, err := u.Cluster.Load(v.ctx, forecast.Query{Step: time.Minute, Buckets: minutes})
	far, second := u.Cluster.Load(v.ctx, forecast.Query{Step: time.Hour, Buckets: hours})
	if err := errors.Join(err, second); err != nil {
		return view, err
	}
	view.Minute, view.Hour, view.Day = first(&near, 1), first(&near, minutes), first(&far, aDay)
	view.Minutes = loadChart("Due in each minute of the next hour", &near, "15:04", v.now)
	view.Hours = loadChart("Due in each hour of the next week", &far, "Mon 15:04", v.now)
	view.Unreached = unique(near.Unreached, far.Unreached)
	return view, nil
}

// first adds up the first buckets of a load.
func first(load *forecast.Load, buckets int) (sum figure) {
	for i, n := range load.Copies {
		if i < buckets {
			sum.Copies += n
		}
	}
	for i, n := range load.Timers {
		if i < buckets {
			sum.Timers += n
		}
	}
	return sum
}
