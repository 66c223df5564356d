package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/time/rate"

	"chronos/scheduler/awake"
	"chronos/scheduler/dispatch"
	"chronos/scheduler/kafka/message"
	"chronos/scheduler/kafka/output"
	"chronos/scheduler/replica"
	"chronos/scheduler/timer"
)

// Config says how a Bridge moves messages between topics.
type Config struct {
	Connection
	Input, Output string
	// DeadLetters is the topic of messages that can't be delayed; "" to only log and count the
	// messages.
	DeadLetters string
	Group       string
	// Advance is how long before the deadline a message is published; 0 for never early.
	Advance time.Duration
	// AutoAdvance replaces Advance by the median of the measured times that messages take to the
	// output.
	AutoAdvance bool
	// ReplicationFactor is how many copies of a waiting message there are.
	ReplicationFactor int
	// RelayID adds its id to a published message, for consumers that must not take a message twice.
	RelayID bool
	// MaxPending is how many messages may be on their way to the output at once.
	MaxPending int

	Log        *slog.Logger
	Registerer prometheus.Registerer // nil for none

	more []kgo.Opt // of every client, for tests
}

// Timers keep messages until due: a scheduler.Scheduler.
type Timers interface {
	// Admit has new messages wait.
	Admit(ctx context.Context, all []replica.Admission)
	// Known finds the standing of messages.
	Known(ctx context.Context, all []replica.Admission)
	// Remember notes that messages without a wait in timers are over.
	Remember(ctx context.Context, all []replica.Admission)
}

// Bridge has messages of the input topic wait in timers, and publishes due messages. Bridge is the
// dispatch.Deliverer of these timers, safe for concurrent use from Open until Close.
type Bridge struct {
	config  Config
	log     *slog.Logger
	metrics *metrics
	output  *output.Output
	advance *advance
	options []kgo.Opt // of every client

	endWatch context.CancelFunc
	watching sync.WaitGroup

	complaints  *complaints
	remembering sync.WaitGroup // has the timers remember the messages that Run published
}

var (
	_ dispatch.Deliverer = (*Bridge)(nil)
	_ dispatch.Namer     = (*Bridge)(nil)
)

// openTime is how long brokers may take to list the topics. An unreachable broker stops nothing: the
// broker may come later.
const openTime = 10 * time.Second

// Open makes a Bridge. The error says what is wrong with the configuration, or with the topics if a
// broker answered.
func Open(ctx context.Context, config Config) (*Bridge, error) {
	options, err := config.options()
	if err != nil {
		return nil, fmt.Errorf("open bridge: %w", err)
	}
	if config.insecure() {
		config.Log.Warn("the password is sent to the brokers unencrypted; set CHRONOS_KAFKA_TLS=true")
	}
	b := &Bridge{
		config: config, log: config.Log,
		options: append(options,
			kgo.WithLogger(quiet{config.Log, rate.NewLimiter(rate.Every(tellInterval), 5)}),
			kgo.RetryBackoffFn(retryBackoff), kgo.RequestRetries(requestRetries),
		),
		complaints: newComplaints(config.Log), advance: newAdvance(&config),
	}
	if b.metrics, err = newMetrics(config.Registerer, b.advance.now); err != nil {
		return nil, fmt.Errorf("open bridge: %w", err)
	}
	bounded, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	largest, err := b.inspect(bounded)
	w := &watch{bridge: b, sound: err == nil}
	if errors.Is(err, errNoAnswer) {
		b.log.Warn("no broker answers; messages wait until one does", "err", err)
		w.trouble = errNoAnswer.Error()
	} else if err != nil {
		return nil, fmt.Errorf("open bridge: %w", err)
	}
	b.output, err = output.New(output.Options{
		Topic: config.Output, DeadLetters: config.DeadLetters, RelayID: config.RelayID, Largest: largest,
		MaxBuffered: 2*config.MaxPending + 2*maxLate, Connect: b.connect, Registerer: config.Registerer,
	})
	if err != nil {
		return nil, fmt.Errorf("open bridge: %w", err)
	}
	watched, endWatch := context.WithCancel(context.WithoutCancel(ctx))
	b.endWatch = endWatch
	b.watching.Go(func() { w.run(watched) })
	return b, nil
}

// connect makes a client with these options and the options of all clients.
func (b *Bridge) connect(options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(slices.Concat(b.options, options, b.config.more)...)
}

// Run moves messages from the input into timers until ctx ends. Then Run finishes the records in hand,
// commits and leaves the group. Timers may have to remember messages until Close, since some messages
// are still on their way to the brokers.
func (b *Bridge) Run(ctx context.Context, timers Timers) error {
	in, err := newInput(b, timers)
	if err != nil {
		return fmt.Errorf("consume %s: %w", b.config.Input, err)
	}
	b.remembering.Go(func() { in.remember(context.WithoutCancel(ctx)) })
	in.run(ctx)
	b.remembering.Go(func() { // ends once the output has kept its promises
		in.pending.Wait()
		close(in.published)
	})
	return nil
}

// Close ends all publishing: calls of Deliver return. Close is called after Run.
func (b *Bridge) Close() {
	b.endWatch()
	b.watching.Wait()
	b.output.Close()
	b.remembering.Wait()
	b.complaints.tellRest()
}

// scheme begins the text that a message has in place of a callback's URI.
const scheme = "kafka:"

// Check implements dispatch.Deliverer.
func (b *Bridge) Check(c timer.Callback) error {
	if _, err := message.Decode(c.Opaque); err != nil {
		return &timer.InvalidError{Code: "kafka-message", Detail: "this is not a message of a Kafka topic"}
	}
	return nil
}

// Destination implements dispatch.Deliverer: all messages go to one topic.
func (b *Bridge) Destination(timer.Callback) string { return b.config.Output }

// NameOf implements dispatch.Namer: publishers only know their own ids.
func (b *Bridge) NameOf(id timer.ID, c timer.Callback) string {
	m, err := message.Decode(c.Opaque)
	if err != nil {
		return "message of the key " + id.Key
	}
	return "message " + m.ID
}

// Deliver implements dispatch.Deliverer. Deliver returns when the brokers have answered or the Bridge
// is closed, however long the answer takes: a sent record can't be taken back.
func (b *Bridge) Deliver(ctx context.Context, d dispatch.Delivery) dispatch.Delivered {
	m, err := message.Decode(d.Callback.Opaque)
	if err != nil {
		b.complaints.unreadable.say("timer", d.ID.Key, "err", err)
		return dispatch.Delivered{Reason: "the stored message can't be read"}
	}
	left := b.advance.left(m.Deadline, d.Due, d.Late)
	if left > 0 && !awake.Sleep(ctx, left) || ctx.Err() != nil {
		return dispatch.Delivered{Reason: "its lease was lost before it was published"}
	}
	answer, begun := make(chan error, 1), time.Now()
	b.output.Publish(&m, func(err error) { answer <- err })
	err = <-answer
	switch {
	case err == nil:
		if now := time.Now(); d.Late <= inTime {
			b.advance.observe(now, now.Sub(begun))
		}
		b.metrics.jitter.Observe(time.Since(m.Deadline).Seconds())
		return dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
	case errors.Is(err, kgo.ErrClientClosed):
		return dispatch.Delivered{Reason: "the bridge was stopped"}
	case output.Refused(err):
		return b.refusedBy(&m, d.Attempt, err)
	}
	b.complaints.unpublished.say("id", m.ID, "from", m.From, "attempt", d.Attempt, "err", b.config.advised(b.config.Output, err))
	return dispatch.Delivered{Reason: printable(err)}
}

// maxRefusals is how many attempts a message gets if the output refuses the message.
const maxRefusals = 5

// refusedBy ends an attempt that the output refused. The last attempt sends the message to the engine's
// dead letters.
func (b *Bridge) refusedBy(m *message.Message, attempt int, err error) dispatch.Delivered {
	final, line := attempt >= maxRefusals, b.complaints.rejected
	if final {
		line = b.complaints.givenUp
	}
	line.say("id", m.ID, "from", m.From, "attempt", attempt, "err", err, "advice", output.Remedy(err))
	return dispatch.Delivered{Reason: printable(err), Final: final}
}

// printable is an error in a few words for people.
func printable(err error) string {
	text := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, err.Error())
	const most = 200
	if len(text) > most {
		text = text[:most]
	}
	return strings.ToValidUTF8(fmt.Sprintf("not published: %s", text), "?")
}

// wholeMs is d rounded up: timers are due at whole milliseconds, and Deliver waits for
// the rest.
func wholeMs(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}

// admission is a message as timers know it.
func (b *Bridge) admission(m *message.Message) replica.Admission {
	return replica.Admission{
		Key: message.TimerKey(m.ID), Origin: m.From.String() + "@" + strconv.FormatInt(m.Written.UnixMilli(), 10),
		Timer: timer.Timer{
			At: m.Deadline.Add(-wholeMs(b.advance.now())), ReplicationFactor: b.config.ReplicationFactor,
			Callback: timer.Callback{URI: scheme + b.config.Output, Opaque: m.Encode()},
		},
	}
}
