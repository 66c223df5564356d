package wire

import "chronos/scheduler/listing"

type (
	// BulkView is the result of a change to many timers.
	BulkView struct {
		Done    int            `json:"done"` // with dry-run, timers that would be changed
		Refused []RefusedTimer `json:"refused"`
		LeftOut int            `json:"left_out"`       // timers that changed after the first call
		Next    string         `json:"next,omitempty"` // the cursor of the next call; absent at the end
		Scanned int            `json:"scanned"`        // copies
		// Reached is until when all timers had a turn; absent at the end.
		Reached   *string  `json:"reached,omitempty"`
		Unreached []string `json:"unreached"` // shards whose timers may have had no turn
	}
	// RefusedTimer is a timer that was left as it is.
	RefusedTimer struct {
		ID     string `json:"id"`
		Code   string `json:"code"`
		Detail string `json:"detail"`
	}
)

// ViewBulk makes the view of a change to many timers. problem explains why a timer was refused.
func ViewBulk(done *listing.Done, problem func(error) Problem) BulkView {
	view := BulkView{
		Done: done.Done, Refused: make([]RefusedTimer, len(done.Refused)), LeftOut: done.LeftOut, Next: done.Next, Scanned: done.Scanned,
		Reached: instantOrNull(done.Reached), Unreached: listed(done.Unreached),
	}
	for i, r := range done.Refused {
		p := problem(r.Err)
		view.Refused[i] = RefusedTimer{ID: r.ID, Code: p.Code, Detail: p.Detail}
	}
	return view
}
