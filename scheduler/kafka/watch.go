package kafka

import (
	"context"
	"errors"
	"time"
)

const (
	watchInterval = time.Second
	// publishPatience is how long a record may be on its way before the log says so.
	publishPatience = 5 * time.Second
	// askInterval is how often the brokers are then asked for the reason, and askTime how long the
	// brokers may take to answer.
	askInterval = 5 * time.Second
	askTime     = 4 * time.Second
)

// watch logs what is wrong while records wait for the brokers. If no broker could be asked at the
// start, watch also logs until a broker has answered and has all topics.
type watch struct {
	bridge  *Bridge
	sound   bool      // the brokers have said once that all topics exist
	asked   time.Time // last
	trouble string    // was logged last, "" for none
}

// run ends with ctx.
func (w *watch) run(ctx context.Context) {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			w.look(ctx)
		case <-ctx.Done():
			return
		}
	}
}

func (w *watch) look(ctx context.Context) {
	oldest := w.bridge.output.Oldest()
	waits := oldest >= publishPatience
	switch {
	case w.sound && !waits:
		if w.trouble != "" {
			w.trouble = ""
			w.bridge.log.Info("output is back; publishing goes on", "topic", w.bridge.config.Output)
		}
		return
	case time.Since(w.asked) < askInterval:
		return
	}
	w.asked = time.Now()
	bounded, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	err := w.bridge.topicsExist(bounded, w.bridge.output.Client())
	switch {
	case ctx.Err() != nil:
	case waits && err == nil:
		w.sound = true
		w.tell("output doesn't answer; messages wait", errUnknownTrouble, oldest)
	case waits:
		w.tell("output doesn't answer; messages wait", err, oldest)
	case err != nil:
		w.tell("topics can't be used", err, oldest)
	default:
		w.sound = true
	}
}

var errUnknownTrouble = errors.New("the brokers answer, and the topics exist; a partition may have no leader, or fewer replicas in sync than min.insync.replicas")

// tell logs a trouble once for as long as the trouble stays the same: a warning, if the trouble may end
// by itself.
func (w *watch) tell(message string, err error, oldest time.Duration) {
	trouble, log := err.Error(), w.bridge.log.Error
	switch {
	case errors.Is(err, errNoAnswer):
		trouble, log = errNoAnswer.Error(), w.bridge.log.Warn // the details may differ every time
	case errors.Is(err, errUnknownTrouble):
		log = w.bridge.log.Warn
	}
	if trouble != w.trouble {
		w.trouble = trouble
		log(message, "topic", w.bridge.config.Output, "why", err, "oldest", oldest)
	}
}
