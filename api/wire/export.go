package wire

import (
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// ExportView is what is left of a timer, as a PUT to another cluster takes the timer.
type ExportView struct {
	Key string `json:"key"`
	TimerView
	// Hidden says that values are replaced by ***.
	Hidden bool `json:"hidden,omitempty"`
}

// ViewExport shows what is left of a timer: the first pop is the timer's next pop, at the instant at which the
// pop is due. The attempts at the pop begin anew. Without secrets the values of headers that are secrets, and the
// user in the callback's URI, are replaced by ***.
func ViewExport(found *store.ReadResult, secrets bool) ExportView {
	t := found.Record.Timer
	t.At = found.PopDue()
	if t.RepeatFor == 0 {
		t.Interval = 0
	} else {
		t.RepeatFor = time.Duration(t.Pops()-found.Record.State.Seq+1) * t.Interval
	}
	view := ExportView{Key: found.Record.ID.Key, TimerView: storedView(&t)}
	if !secrets {
		view.Callback, view.Hidden = viewCallback(&t), hides(&t.Callback)
	} else if t.Callback.Headers == "" {
		view.Callback.HTTP.Headers = nil
	}
	return view
}

// hides reports whether a view of the callback without secrets lacks something.
func hides(c *timer.Callback) bool {
	return c.Redacted() != c.URI || c.Headers.Redacted() != c.Headers
}
