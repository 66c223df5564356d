package sitemodel

// The sites of every scenario. The timer of the start has its home at London.
const (
	london int8 = iota
	newYork
	sites
)

// Lengths in ticks that no scenario changes.
const (
	siteDelay   int8 = 3 // of a copy outside of the home
	skew        int8 = 1 // until a copy looks again
	heardFor    int8 = 1 // in touch: the age of what the home has read of the other site's marks
	aliveFor    int8 = 3 // a node counts as alive after its last announcement
	clocksApart int8 = 1
	youngFor    int8 = 3 // the end of a version that was written so recently leaves a tombstone, as in one site
	fillAfter   int8 = 2 // a loss: longer than a late write takes
	promised    int8 = 2 // an old version may come so long after an answer in flight, or after a cut
	calmAfter   int8 = 3 // after a fault
	never       int8 = 100
)

// Fault is a set of kinds of faults.
type Fault uint8

// The kinds of faults.
const (
	Cut       Fault = 1 << iota // the sites don't hear each other for a while
	CutOneWay                   // one site does not reach the other for a while
	Lose                        // a site is lost for good
	Wipe                        // a site loses all its data
	WipeSome                    // a site loses some shards, and with them the timer's copies there
	Pause                       // the nodes of a site stand still for a while
	Die                         // the nodes of a site die, and its shards stay
	MarkFails                   // a mark can't be written

	// SiteFaults are the faults of which the promises speak.
	SiteFaults = Cut | CutOneWay | Lose | Wipe | WipeSome | Pause | Die
)

// Kind is a write of a client.
type Kind int8

// The writes.
const (
	NoWrite Kind = iota
	Put          // on a key without a timer: a POST
	Delete
)

// Write is a client's write.
type Write struct {
	Kind Kind
	Site int8
	From int8 // the first tick
	By   int8 // the last tick
	In   int8 // from the write to the first pop
}

// Scenario is one timer and all that may happen to the timer. Times are in ticks.
type Scenario struct {
	Rules Rules

	Pops     int8 // of version 1; 0: there is no timer at the start
	Due      int8 // the first pop of version 1
	Interval int8
	PutPops  int8 // of the timer that a PUT makes
	Slow     int8 // the longest time from the decision to the callback
	Hold     int8 // the longest time of a callback
	Life     int8 // of a tombstone

	Writes [2]Write

	Faults Fault
	Sites  uint8 // the sites that have faults; 0: both
	Budget int8  // faults in all
	From   int8  // no fault comes earlier
	Heal   int8  // cuts and pauses end by then
	End    int8
	Bound  int8 // a pop of version 1 may be so late, if there is no write; 0: as late as it likes
}

// OneShot is a timer of one pop, with all rules and no fault.
func OneShot() Scenario {
	return Scenario{Rules: AllRules(), Pops: 1, Due: 3, Interval: 5, PutPops: 1, Life: 6, Heal: 8, End: 20}
}

// Recurring is a timer of three pops, with all rules and no fault.
func Recurring() Scenario {
	sc := OneShot()
	sc.Pops, sc.Interval, sc.Heal, sc.End = 3, 4, 9, 26
	return sc
}

func (sc *Scenario) pops(version int8) int8 {
	if version == 1 {
		return sc.Pops
	}
	return sc.PutPops
}

// touches reports whether a site may have a fault of the kind.
func (sc *Scenario) touches(site int8, kind Fault) bool {
	return sc.Faults&kind != 0 && (sc.Sites == 0 || sc.Sites&(1<<site) != 0)
}
