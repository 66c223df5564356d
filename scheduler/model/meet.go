package model

// meet goes on with a PUT that has told the homes that it can reach, while another
// operation may come through the other node: a home notes the substitute, or the
// substitute is made, one at a time.
func (x *stepper) meet() {
	now := &x.now.Create
	away := x.sc.Homes
	reached := now.Told &^ now.Untold
	switch {
	case now.Untold == 0 || reached == 0 || x.sc.Shards == x.sc.Homes:
		x.meetingEnds("no substitute")
	case !x.sc.Rules.NameFirst && !now.Made:
		x.makeSubstitute()
	case now.Noted != reached:
		x.note(reached)
	case now.Made || !x.named():
		x.meetingEnds("homes noted")
	case !x.now.reach(0, away):
		x.meetingEnds("the substitute can't be reached")
	default:
		x.makeSubstitute()
	}
}

func (x *stepper) meetingEnds(why string) {
	next := *x.now
	next.Create.Phase = answered
	x.urgent(&next, "PUT answered: %s", why)
}

// note tells the next home of the substitute, if the home still has the PUT's version.
func (x *stepper) note(reached uint8) {
	for shard := range x.sc.Homes {
		bit := uint8(1) << shard
		if reached&bit == 0 || x.now.Create.Noted&bit != 0 {
			continue
		}
		next := *x.now
		next.Create.Noted |= bit
		c := &next.Copies[shard]
		has := x.now.reach(0, shard) && c.Kind != absent && c.Version == 1
		c.Named = c.Named || has
		if x.sc.Rules.NameFirst && x.now.reach(0, shard) && !has {
			next.Create.Phase = answered // another write came, and nothing is made any more
		}
		x.urgent(&next, "PUT notes the substitute on S%d: %v", shard, has)
		return
	}
}

// named reports whether a home names the substitute.
func (x *stepper) named() bool {
	for shard := range x.sc.Homes {
		if x.now.Copies[shard].Named {
			return true
		}
	}
	return false
}

func (x *stepper) makeSubstitute() {
	next := *x.now
	next.Create.Made = true
	for shard := range x.sc.Homes {
		if next.Create.Untold&(1<<shard) != 0 && x.now.reach(0, x.sc.Homes) {
			next.substitute(x.sc, shard)
		}
	}
	x.urgent(&next, "PUT makes the substitute")
}
