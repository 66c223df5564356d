package operator

import (
	"log/slog"

	"chronos/redisstore"
)

// WarnOfFewCopies warns if fewer Redis instances take timers than copies are asked for. The
// advice names the setting for operators who want so few copies.
func WarnOfFewCopies(log *slog.Logger, store *redisstore.Store, copies int, advice string) {
	t := store.Topology()
	if n := len(t.Active); n < copies {
		log.Warn("there are fewer Redis instances than copies are asked for: no more copies are stored than there are instances",
			"instances", n, "copies", copies, "advice", "name more instances in CHRONOS_REDIS (name=redis://host:6379/0), or "+advice)
	}
}
