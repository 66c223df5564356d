package kafka

import (
	"log/slog"

	"github.com/twmb/franz-go/pkg/kgo"
)

// quiet is the client's log: what it warns of is what brokers do when they come and
// go, and what matters of that is said elsewhere.
type quiet struct{ log *slog.Logger }

func (q quiet) Level() kgo.LogLevel { return kgo.LogLevelWarn }

func (q quiet) Log(level kgo.LogLevel, message string, keyvals ...any) {
	if level == kgo.LogLevelError {
		q.log.Warn("kafka: "+message, keyvals...)
		return
	}
	q.log.Debug("kafka: "+message, keyvals...)
}
