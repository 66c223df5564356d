package scheduler

import (
	"sync"
	"time"

	"chronos/scheduler/dispatch"
	"chronos/scheduler/pulse"
	"chronos/scheduler/settings"
	"chronos/scheduler/timing"
)

// teller makes the text that this node tells of itself. The shards get the same text. teller is safe for
// concurrent use.
type teller struct {
	config   *settings.Config
	dispatch *dispatch.Dispatcher

	mu   sync.Mutex
	text string
	made time.Time
}

// tell is the text of now, or of half a heartbeat ago.
func (t *teller) tell() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.made.IsZero() && time.Since(t.made) < timing.BeatInterval/2 {
		return t.text
	}
	figures, inHand, inFlight := t.dispatch.Figures(), t.dispatch.InHand(), 0
	for _, load := range inHand {
		inFlight += load.InFlight
	}
	text, err := pulse.Text(t.config.Identity, &figures, inFlight, inHand)
	if err != nil { // a text that is missing hurts nobody but the reader of the log
		t.config.Log.Debug("this node tells nothing of itself", "err", err)
	}
	t.text, t.made = text, time.Now()
	return text
}
