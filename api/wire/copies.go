package wire

import "chronos/scheduler/listing"

type (
	// CopiesView are the copies of a timer, as the admin listener shows the copies.
	CopiesView struct {
		Copies []copyView `json:"copies"`
	}
	// copyView has null for what a shard without a copy does not have.
	copyView struct {
		Shard    string  `json:"shard"`
		Rank     int     `json:"rank"`
		Owner    bool    `json:"owner"`
		State    string  `json:"state"`
		Version  *string `json:"version"`
		Revision *string `json:"revision"` // null without a PATCH, too
		Sequence *int    `json:"sequence"`
		Attempt  *int    `json:"attempt"`
		Due      *string `json:"due"`
		Look     *string `json:"look"`
		Lease    *string `json:"lease"` // the node that has the copy leased
	}
)

// ViewCopies makes the view of the copies of a timer.
func ViewCopies(copies []listing.Copy) CopiesView {
	view := CopiesView{make([]copyView, len(copies))}
	for i := range copies {
		c := &copies[i]
		v := copyView{
			Shard: c.Shard, Rank: c.Rank, Owner: c.Owner, State: string(c.State),
			Due: instantOrNull(c.Due), Look: instantOrNull(c.Look), Lease: orNull(shown(c.Lease)),
		}
		if c.Version.Version != 0 {
			v.Version, v.Sequence, v.Attempt = orNull(c.Version.Version.String()), &c.Version.Seq, &c.Version.Attempt
		}
		if c.Version.Rev != 0 {
			v.Revision = orNull(c.Version.Rev.String())
		}
		view.Copies[i] = v
	}
	return view
}
