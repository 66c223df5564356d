package sitemodel

import "reflect"

// Rules are the rules between sites, each with a switch.
type Rules struct {
	// HomeMoves: a PUT makes the writer's site the home. Otherwise the PUT keeps the home of the newest copy in
	// the writer's site.
	HomeMoves bool
	// HomeAlike: all copies of a version name one home. Otherwise each copy names its own site.
	HomeAlike bool
	// Delay: a copy outside of the home comes due later.
	Delay bool
	// OwnFirst: a write goes to the other site once the own site has the write.
	OwnFirst bool
	// MarkFirst: a write that a site has not confirmed leaves a mark before the answer.
	MarkFirst bool
	// MarkAges: a mark that is made again keeps its age. The home overlooks young marks.
	MarkAges bool
	// MarkStays: the mark stays when the copy gets a newer version. Otherwise the mark is of one version, and goes with
	// the version.
	MarkStays bool
	// MarkOrRefuse: a write that can leave no mark is refused.
	MarkOrRefuse bool
	// AnyMark: the home is in touch only without any mark for its site. Otherwise only marks count
	// whose record names the site as the home.
	AnyMark bool
	// InTouch: a home that is not in touch compares with the other site before a callback.
	InTouch bool
	// LimitFromRead: the time in which the home may begin the callback counts from the reading of the marks. Otherwise
	// the time counts from the decision.
	LimitFromRead bool
	// OverdueCompares: a home whose pop is overdue by the delay compares, too.
	OverdueCompares bool
	// LeaseWaits: a home that compares waits while the other site has leased the same pop.
	LeaseWaits bool
	// Compare: a copy outside of the home compares before a callback.
	Compare bool
	// Yield: such a copy yields to an equal copy at the home.
	Yield bool
	// Heartbeat: the copy yields only if a node of the home has announced itself.
	Heartbeat bool
	// Adopt: the copy adopts a newer state of the home.
	Adopt bool
	// RemoveOver: the copy is removed if the home has nothing and the three conditions below hold.
	RemoveOver bool
	// RemoveReached: the copy is removed only if the home has answered.
	RemoveReached bool
	// RemoveUnmarked: the copy is removed only without a mark for the home.
	RemoveUnmarked bool
	// RemoveFilled: the copy is removed only if the home has the fill number that was noted last.
	RemoveFilled bool
	// FillQuiet: a site that lost all data calls and answers nothing before another site has filled it.
	FillQuiet bool
	// FillWaits: a site is filled no earlier than 2 s after the loss.
	FillWaits bool
	// FillShards: the fill number belongs to a shard. Otherwise the number belongs to the site, and a
	// site that lost some shards goes on as if nothing had happened.
	FillShards bool
	// NewAnswered: an emptied site takes the cluster for new only if the other site answers that it is empty, too.
	// Otherwise silence counts as empty.
	NewAnswered bool
	// NewUnfilled: a cluster in which a fill has begun is not new. The site with the fill goes on with what it has.
	NewUnfilled bool
	// ClearExact: a mark is removed only if the record still is what the other site was told.
	ClearExact bool
	// CompareClears: a comparison after which both sites are alike removes the marks of both.
	CompareClears bool
	// TombstonesWait: a marked tombstone stays.
	TombstonesWait bool
	// EndKept: the end of a marked timer leaves a tombstone.
	EndKept bool
	// ToldClears: a state that a site tells removes the mark for this site.
	ToldClears bool
	// UnsureEndMarked: the home's end of a version leaves a mark, too, if the home has not been in touch since the version
	// was written.
	UnsureEndMarked bool
	// OutcomeMarked: the outcome of a callback outside of the home leaves a mark.
	OutcomeMarked bool
	// OutcomeOntoLive: the mark of an outcome makes no copy where none is, and keeps no copy from its removal.
	OutcomeOntoLive bool
	// Newest: a merge changes nothing unless the written state is newer.
	Newest bool
}

// AllRules has every rule on.
func AllRules() Rules {
	var r Rules
	for _, field := range reflect.ValueOf(&r).Elem().Fields() {
		field.SetBool(true)
	}
	return r
}
