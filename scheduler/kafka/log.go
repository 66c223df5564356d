package kafka

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/time/rate"

	"chronos/scheduler/sample"
)

// quiet is the client's log. The client warns of brokers that come and go, and the bridge logs the
// important part elsewhere. The client repeats an error at every try.
type quiet struct {
	log   *slog.Logger
	limit *rate.Limiter
}

func (q quiet) Level() kgo.LogLevel { return kgo.LogLevelWarn }

func (q quiet) Log(level kgo.LogLevel, message string, keyvals ...any) {
	if level == kgo.LogLevelError && q.limit.Allow() {
		q.log.Warn("kafka: "+message, keyvals...)
		return
	}
	q.log.Debug("kafka: "+message, keyvals...)
}

// tellInterval is how often the log tells how much was left out.
const tellInterval = sample.RestInterval

// complaints are log lines that could be as many as messages or tries. Every kind has a bound of its
// own, so that no kind silences another.
type complaints struct {
	malformed, refused, rejected, givenUp, unburied, unpublished, unreadable, unread, unjoined *complaint
}

func newComplaints(log *slog.Logger) *complaints {
	kind := func(level slog.Level, message string, limit rate.Limit, burst int) *complaint {
		return &complaint{log: log, message: message, line: sample.New(level, message, burst, limit), offsets: make(map[int32]span)}
	}
	return &complaints{
		malformed:   kind(slog.LevelError, "message can't be delayed", sample.PerSecond, sample.First),
		refused:     kind(slog.LevelError, "dead letter was refused; it stays in the input topic alone", sample.PerSecond, sample.First),
		rejected:    kind(slog.LevelError, "output refuses message; it is tried again", sample.PerSecond, sample.First),
		givenUp:     kind(slog.LevelError, "output refuses message; it goes to the dead letters, and `chronos dead fire` tries it again", sample.PerSecond, sample.First),
		unburied:    kind(slog.LevelWarn, "dead letter could not be published; it is tried again", sample.PerSecond, sample.First),
		unpublished: kind(slog.LevelWarn, "message could not be published; it is tried again", sample.PerSecond, sample.First),
		unreadable:  kind(slog.LevelError, "message can't be read; it stays where it is", sample.PerSecond, sample.First),
		unread:      kind(slog.LevelWarn, "could not read from the topic; it is tried again", 1, 10),
		unjoined:    kind(slog.LevelWarn, "could not join the group, or stay in it; it is tried again", rate.Every(tellInterval), 1),
	}
}

// tellRest logs for every kind how much was left out since the last time.
func (c *complaints) tellRest() {
	for _, kind := range []*complaint{
		c.malformed, c.refused, c.rejected, c.givenUp, c.unburied, c.unpublished, c.unreadable, c.unread, c.unjoined,
	} {
		kind.tellRest()
	}
}

// complaint is a kind of line. Lines beyond the limit are left out and counted.
type complaint struct {
	log     *slog.Logger
	message string
	line    *sample.Line

	mu      sync.Mutex
	offsets map[int32]span // of the records in left-out lines, by partition of the input
}

type span struct{ first, last int64 }

func (c *complaint) say(args ...any) { c.line.Log(c.log, c.message, args...) }

// about logs a line about a record of the input, or notes the record's place.
func (c *complaint) about(r *kgo.Record, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.line.Log(c.log, c.message, append(args, "topic", r.Topic, "partition", r.Partition, "offset", r.Offset)...) {
		return
	}
	at, ok := c.offsets[r.Partition]
	if !ok {
		at = span{r.Offset, r.Offset}
	}
	c.offsets[r.Partition] = span{min(at.first, r.Offset), max(at.last, r.Offset)}
}

func (c *complaint) tellRest() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.offsets) == 0 {
		c.line.Rest(c.log)
		return
	}
	c.line.Rest(c.log, "offsets", places(c.offsets))
	clear(c.offsets)
}

// places names the first and last offset of every partition, in a text of bounded length.
func places(offsets map[int32]span) string {
	const most = 20
	var words []string
	for _, id := range slices.Sorted(maps.Keys(offsets)) {
		if len(words) == most {
			words = append(words, fmt.Sprintf("and of %d more partitions", len(offsets)-most))
			break
		}
		words = append(words, fmt.Sprintf("partition %d: %d to %d", id, offsets[id].first, offsets[id].last))
	}
	return strings.Join(words, ", ")
}
