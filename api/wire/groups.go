package wire

import "chronos/scheduler/deadletter"

type (
	// GroupsView are dead letters by destination and reason, as the admin listener shows the letters.
	GroupsView struct {
		Groups   []groupView `json:"groups"`
		LookedAt int         `json:"looked_at"`
		Complete bool        `json:"complete"`
		// Unreached are the shards whose letters are missing.
		Unreached []string `json:"unreached"`
	}
	groupView struct {
		Destination *string `json:"destination"` // null for letters that can't be read
		Reason      string  `json:"reason"`
		Count       int     `json:"count"`
		Oldest      *string `json:"oldest"`
		Newest      *string `json:"newest"`
	}
)

// ViewGroups makes the view of groups of dead letters.
func ViewGroups(g *deadletter.Groups) GroupsView {
	view := GroupsView{Groups: make([]groupView, len(g.Groups)), LookedAt: g.LookedAt, Complete: g.Complete, Unreached: listed(g.Unreached)}
	for i := range g.Groups {
		one := &g.Groups[i]
		view.Groups[i] = groupView{orNull(shown(one.Destination)), shown(one.Reason), one.Count, instantOrNull(one.Oldest), instantOrNull(one.Newest)}
	}
	return view
}
