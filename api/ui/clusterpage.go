package ui

import (
	"context"
	"net/url"
	"strings"
	"time"

	"chronos/api/tokens"
	"chronos/api/wire"
	"chronos/scheduler/cluster"
)

// clusterPage are the shards and the nodes.
type clusterPage struct {
	View      string
	Epoch     int64
	Shards    []shardRow
	Nodes     []nodeRow
	MoreNodes int
	Unreached []string
	Next      []string // what to do next with the topology, in words
	Change    bool     // the operator may change the topology
}

type shardRow struct {
	cluster.Shard
	Condition     string // for the colour of the state
	Path          string // of the pages that ask about a change
	Drain, Remove bool   // the change makes sense now
	Force         bool   // the removal needs force
	SweptPercent  string
	Memory        string
	Offset        string
}

type nodeRow struct {
	cluster.Node
	Up *instant
}

// States of shards in the topology.
const (
	stateActive   = "active"
	stateJoining  = "joining"
	stateLeaving  = "leaving"
	stateDraining = "draining"
)

func (u *UI) cluster(v *visit) (answer, error) {
	status, err := u.Cluster.Status(v.ctx)
	if err != nil {
		return answer{}, err
	}
	page := clusterPage{View: status.View, Epoch: status.Epoch, Unreached: status.Unreached, Change: v.may(tokens.Admin)}
	for i := range status.Shards {
		page.Shards = append(page.Shards, shardRowOf(&status.Shards[i]))
		if next := nextStep(&status.Shards[i]); next != "" {
			page.Next = append(page.Next, next)
		}
	}
	page.MoreNodes = max(len(status.Nodes)-maxRows, 0)
	for _, n := range status.Nodes[:min(len(status.Nodes), maxRows)] {
		page.Nodes = append(page.Nodes, nodeRow{n, at(n.Started, v.now)})
	}
	return answer{page: "cluster", title: "Cluster", tab: "Cluster", data: page}, nil
}

func shardRowOf(s *cluster.Shard) shardRow {
	row := shardRow{Shard: *s, Path: "/ui/cluster/" + url.PathEscape(s.Name), Condition: "good", Offset: brief(s.ClockOffset.Round(time.Millisecond))}
	switch {
	case !s.Up, s.Lost:
		row.Condition = "bad"
	case s.Problem != "", s.Evicts, s.Persists == "none":
		row.Condition = "warn"
	case s.State != stateActive:
		row.Condition = "busy"
	}
	row.Drain = s.State == stateActive || s.State == stateJoining
	row.Remove = s.Up && s.Removable
	row.Force = !row.Remove
	if s.Swept != nil {
		row.SweptPercent = percent(*s.Swept)
	}
	if s.UsedMemory > 0 {
		row.Memory = size(s.UsedMemory)
		if s.MaxMemory > 0 {
			row.Memory += " of " + size(s.MaxMemory)
		}
	}
	return row
}

// nextStep is what an operator does next with a shard, in words; "" for nothing.
func nextStep(s *cluster.Shard) string {
	left := ""
	if s.SweepLeft > 0 {
		left = ", about " + brief(s.SweepLeft) + " more"
	}
	switch {
	case s.Up && s.Removable:
		return s.Name + " is empty: remove it."
	case s.State == stateDraining && s.Up && s.Copies != nil && *s.Copies == 0:
		return s.Name + " is empty, and can be removed in some seconds. Wait."
	case s.State == stateDraining && s.Up && s.Copies != nil:
		return s.Name + " is being drained: " + plural(*s.Copies, "copy is", "copies are") + " still there" + left + ". Wait."
	case s.State == stateDraining:
		return s.Name + " is being drained and does not answer: bring its Redis back, or remove it with force."
	case s.State == stateLeaving:
		return s.Name + " takes timers for some seconds more, and is drained then. Wait."
	case s.State == stateJoining:
		return s.Name + " is joining: wait until the sweep is over" + left + "."
	case s.Lost:
		return s.Name + " was given up, and what only this shard had is lost: bring its Redis back, or remove it with force and add another shard in its place."
	}
	if !s.Up {
		return s.Name + " does not answer: look at its Redis. If its data is lost, remove it with force."
	}
	if s.Swept != nil && *s.Swept < 1 {
		return s.Name + " takes and gives timers after the last change: " + percent(*s.Swept) + " of the sweep is over" + left + ". Wait before the next change."
	}
	return ""
}

// askAboutAdding asks for the new shard.
func (u *UI) askAboutAdding(*visit) (answer, error) {
	return confirmPage{
		Title: "Add a shard?", Button: "Add the shard", Post: "/ui/cluster/add", Back: "/ui/cluster",
		Lines: []string{"The shard takes its share of the timers. Timers move while the cluster works on, and only timers whose owners change move."},
		Inputs: []input{
			{Name: "name", Label: "Name", Hint: "letters, digits and hyphens, such as d", Required: true},
			{Name: "url", Label: "URL of the Redis", Hint: "such as redis://host:6379; leave this empty for a shard that is being drained, to keep it after all"},
		},
		Checks: []input{{Name: "force", Label: "The Redis already has a shard in another database; add the shard nevertheless"}},
	}.answer("Cluster")
}

func (u *UI) addShard(v *visit) (answer, error) {
	form := v.r.PostForm
	name := strings.TrimSpace(form.Get("name"))
	v.note("shard", name)
	if name == "" {
		return answer{}, badField("the shard has no name; go back, and give the shard a name")
	}
	if _, err := u.Topology.Add(v.ctx, name, strings.TrimSpace(form.Get("url")), form.Get("force") == "true"); err != nil {
		return answer{}, explain(err, wire.TopologyProblem)
	}
	return v.done(outcome{
		Tab: "Cluster", Title: "The shard is added", Links: []link{{"Cluster", "/ui/cluster"}},
		Lines: []string{"All nodes hear of " + name + " within a second. Then timers move to " + name + "; the cluster page shows how far the sweep is."},
	})
}

// askAboutShard asks whether to drain or remove a shard.
func (u *UI) askAboutShard(v *visit) (answer, error) {
	name := v.r.PathValue("name")
	status, err := u.Cluster.Status(v.ctx)
	if err != nil {
		return answer{}, err
	}
	page := confirmPage{Post: v.r.URL.EscapedPath(), Back: "/ui/cluster", Facts: []fact{factText("Shard", name)}}
	var s *cluster.Shard
	for i := range status.Shards {
		if status.Shards[i].Name == name {
			s = &status.Shards[i]
		}
	}
	if s == nil {
		return answer{}, wire.NewProblem(404, "shard-unknown", "the cluster has no shard of this name; look at the cluster again")
	}
	row := shardRowOf(s)
	page.Facts = append(page.Facts, factText("State", s.State), factText("Redis", s.URL))
	if s.Copies != nil {
		page.Facts = append(page.Facts, factText("Copies", number(*s.Copies)))
	}
	force := input{Name: "force", Label: "Force"}
	switch v.r.PathValue("action") {
	case "drain":
		page.Title, page.Button = "Drain this shard?", "Drain "+name
		page.Lines = []string{"All timers of the shard move to the other shards, while the cluster works on. When the shard is empty, remove it."}
		if !s.Up {
			force.Label = "The shard can't be reached: drain it nevertheless"
			page.Checks = []input{force}
		}
	case "remove":
		page.Title, page.Button, page.Danger = "Remove this shard?", "Remove "+name, row.Force
		page.Lines = []string{"The cluster forgets the shard."}
		if row.Force {
			page.Lines = append(page.Lines, "The shard is not drained: timers whose copies are on this shard alone are lost.")
			force.Label = "Remove the shard though it is not drained and empty"
			page.Checks = []input{force}
		}
	default:
		return answer{}, unknownAction()
	}
	return page.answer("Cluster")
}

func (u *UI) changeShard(v *visit) (answer, error) {
	name := v.r.PathValue("name")
	force := v.r.PostForm.Get("force") == "true"
	v.note("shard", name)
	if force {
		v.note("force", "true")
	}
	o := outcome{Tab: "Cluster", Links: []link{{"Cluster", "/ui/cluster"}}}
	var do func(context.Context, string, bool) (wire.TopologyView, error)
	switch v.r.PathValue("action") {
	case "drain":
		do = u.Topology.Drain
		o.Title, o.Lines = "The shard is being drained", []string{"The timers of " + name + " move to the other shards. The cluster page shows how many are left, and says when to remove " + name + "."}
	case "remove":
		do = u.Topology.Remove
		o.Title, o.Lines = "The shard is removed", []string{"The cluster has forgotten " + name + "."}
	default:
		return answer{}, unknownAction()
	}
	if _, err := do(v.ctx, name, force); err != nil {
		return answer{}, explain(err, wire.TopologyProblem)
	}
	return v.done(o)
}
