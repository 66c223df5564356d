//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/cmd/chronos-bridge/bridgetest/broker"
	"chronos/loadtest/bench/figure"
	"chronos/loadtest/bench/machine"
	"chronos/loadtest/child"
)

const (
	inputTopic, outputTopic = "delay-in", "delay-out"
	kafkaPartitions         = 8
	kafkaDelay              = time.Second
	burstLimit              = 3 * time.Minute
)

// kafkaStack is a broker with redis-servers and bridges, all empty at first.
type kafkaStack struct {
	b       *bench
	server  *broker.Server
	shards  []*machine.Redis
	bridges []*child.Process
	admins  []string
	client  *kgo.Client // writes the input, reads the output
	flows   int         // started so far
	copies  int         // of each message
	advance string      // of the bridges; a value of CHRONOS_KAFKA_ADVANCE
}

func withKafka(ctx context.Context, b *bench, bridges int, do func(*kafkaStack) error) (err error) {
	if reason, ok := broker.Available(); !ok {
		return fmt.Errorf("%w: %s", errAbsent, reason)
	}
	s := &kafkaStack{b: b, copies: 2, advance: neverEarly}
	defer func() { err = errors.Join(err, s.stop()) }()
	for range 2 {
		r, err := machine.StartRedis(ctx, b.dir, true)
		if err != nil {
			return err
		}
		s.shards = append(s.shards, r)
	}
	dir, err := os.MkdirTemp(b.dir, "kafka-")
	if err != nil {
		return fmt.Errorf("make temporary folder: %w", err)
	}
	if s.server, err = broker.Launch(ctx, dir, 0, true); err != nil {
		return err
	}
	if err := s.server.CreateTopic(ctx, inputTopic, kafkaPartitions, nil); err != nil {
		return err
	}
	if err := s.server.CreateTopic(ctx, outputTopic, kafkaPartitions, map[string]string{"message.timestamp.type": "LogAppendTime"}); err != nil {
		return err
	}
	if s.client, err = kgo.NewClient(kgo.SeedBrokers(s.server.Addr()), kgo.ConsumeTopics(outputTopic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond)); err != nil {
		return fmt.Errorf("make Kafka client: %w", err)
	}
	if err := s.startBridges(ctx, bridges); err != nil {
		return err
	}
	return do(s)
}

func (s *kafkaStack) startBridges(ctx context.Context, n int) error {
	var shards []string
	for i, r := range s.shards {
		shards = append(shards, string(rune('a'+i))+"=redis://"+r.Address+"/0")
	}
	for range n {
		admin, err := child.FreeAddress()
		if err != nil {
			return err
		}
		p, err := child.Start(ctx, "bridge", s.b.dir, []string{
			"CHRONOS_REDIS=" + strings.Join(shards, ","), "CHRONOS_BRIDGE_ADMIN_LISTEN=" + admin, "CHRONOS_KAFKA_BROKERS=" + s.server.Addr(),
			"CHRONOS_KAFKA_INPUT=" + inputTopic, "CHRONOS_KAFKA_OUTPUT=" + outputTopic, "CHRONOS_KAFKA_ADVANCE=" + s.advance,
			"CHRONOS_KAFKA_REPLICATION=" + strconv.Itoa(s.copies),
		}, filepath.Join(filepath.Dir(s.b.node), "chronos-bridge"))
		if err != nil {
			return err
		}
		s.bridges, s.admins = append(s.bridges, p), append(s.admins, admin)
	}
	for i, p := range s.bridges {
		if err := p.Until(ctx, child.Answers("http://"+s.admins[i]+"/readyz")); err != nil {
			return err
		}
	}
	return nil
}

func (s *kafkaStack) stop() (err error) {
	for _, p := range s.bridges {
		err = errors.Join(err, p.Stop())
	}
	if s.client != nil {
		s.client.Close()
	}
	if s.server != nil {
		s.server.Kill()
	}
	for _, r := range s.shards {
		err = errors.Join(err, r.Stop())
	}
	return err
}

// Headers that tell the reader the number, the deadline and the send time of a message.
const numberHeader, dueHeader, sentHeader = "n", "due", "sent"

func (s *kafkaStack) message(i int, due time.Time, late bool) *kgo.Record {
	headers := []kgo.RecordHeader{
		{Key: "chronosMessageId", Value: fmt.Appendf(nil, "message-%d-%d", s.flows, i)},
		{Key: "chronosDeadline", Value: strconv.AppendInt(nil, due.UnixMilli(), 10)},
		{Key: numberHeader, Value: strconv.AppendInt(nil, int64(i), 10)},
	}
	if late {
		headers = append(headers, kgo.RecordHeader{Key: sentHeader, Value: strconv.AppendInt(nil, time.Now().UnixMilli(), 10)})
	} else {
		headers = append(headers, kgo.RecordHeader{Key: dueHeader, Value: strconv.AppendInt(nil, due.UnixMilli(), 10)})
	}
	return &kgo.Record{Topic: inputTopic, Key: strconv.AppendInt(nil, int64(i), 10), Value: bytes.Repeat([]byte{'x'}, 200), Headers: headers}
}

// load is a flow of messages: rate messages a second for span. late messages of each hundred are
// late already when sent. The rest is due after kafkaDelay.
type load struct {
	rate int
	span time.Duration
	late int
}

// arrivals collects the messages of the output.
type arrivals struct {
	seen                  []int // arrivals by number of message
	first, last           time.Time
	lateness, fromSending []time.Duration // sorted at the end of read
	early, within         int             // messages before the deadline; messages at most closeBy from the deadline
}

// flow sends messages and reads the output. Each message has to come exactly once.
func (s *kafkaStack) flow(ctx context.Context, l load) (*arrivals, error) {
	n := int(l.span.Seconds() * float64(l.rate))
	s.flows++
	came := &arrivals{seen: make([]int, n)}
	var reading sync.WaitGroup
	var failed error
	bounded, cancel := context.WithTimeout(ctx, l.span+quiet)
	defer cancel()
	reading.Go(func() { failed = s.read(bounded, came, n) })
	err := s.send(ctx, l, n)
	reading.Wait()
	return came, errors.Join(err, failed)
}

// send sends n messages at the rate of the load.
func (s *kafkaStack) send(ctx context.Context, l load, n int) error {
	const step = 5 * time.Millisecond
	tick := time.NewTicker(step)
	defer tick.Stop()
	promises := &kgoPromises{}
	begun := time.Now()
	for sent := 0; sent < n; {
		for due := min(int(time.Since(begun).Seconds()*float64(l.rate)), n); sent < due; sent++ {
			late := sent%100 < l.late
			at := time.Now().Add(kafkaDelay)
			if late {
				at = time.Now().Add(-kafkaDelay)
			}
			s.client.Produce(ctx, s.message(sent, at, late), promises.keep)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("send messages: %w", ctx.Err())
		}
	}
	if err := s.client.Flush(ctx); err != nil {
		return fmt.Errorf("send messages: %w", err)
	}
	return promises.failed()
}

// kgoPromises remembers the first message that could not be sent.
type kgoPromises struct {
	mu  sync.Mutex
	err error
}

func (p *kgoPromises) keep(_ *kgo.Record, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil && err != nil {
		p.err = fmt.Errorf("send message: %w", err)
	}
}

func (p *kgoPromises) failed() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// read reads the output until n different messages have come or ctx ends, and then for the time
// straggle.
func (s *kafkaStack) read(ctx context.Context, came *arrivals, n int) error {
	different := 0
	take := func(fetches kgo.Fetches) (err error) {
		fetches.EachRecord(func(r *kgo.Record) {
			fresh, bad := came.take(r)
			err = errors.Join(err, bad)
			if fresh {
				different++
			}
		})
		return err
	}
	for different < n && ctx.Err() == nil {
		if err := take(s.client.PollFetches(ctx)); err != nil {
			return err
		}
	}
	rest, cancel := context.WithTimeout(context.WithoutCancel(ctx), straggle)
	defer cancel()
	for rest.Err() == nil {
		if err := take(s.client.PollFetches(rest)); err != nil {
			return err
		}
	}
	slices.Sort(came.lateness)
	slices.Sort(came.fromSending)
	double := 0
	for _, times := range came.seen {
		if times > 1 {
			double++
		}
	}
	if different < n || double > 0 {
		return fmt.Errorf("%w: of %d messages %d are missing, %d came more than once", errWrong, n, n-different, double)
	}
	return nil
}

// take counts a record, and reports whether the record is the first of a message.
func (a *arrivals) take(r *kgo.Record) (fresh bool, err error) {
	number, at := -1, r.Timestamp
	for _, h := range r.Headers {
		value, bad := strconv.ParseInt(string(h.Value), 10, 64)
		if bad != nil {
			return false, fmt.Errorf("%w: header %s is altered", errWrong, h.Key)
		}
		switch h.Key {
		case numberHeader:
			number = int(value)
		case dueHeader:
			late := at.Sub(time.UnixMilli(value))
			if a.lateness = append(a.lateness, late); late < 0 {
				a.early++
			}
			if late.Abs() <= closeBy {
				a.within++
			}
		case sentHeader:
			a.fromSending = append(a.fromSending, at.Sub(time.UnixMilli(value)))
		}
	}
	if number < 0 || number >= len(a.seen) || len(r.Value) != 200 {
		return false, fmt.Errorf("%w: a message is altered", errWrong)
	}
	if a.first.IsZero() || at.Before(a.first) {
		a.first = at
	}
	if at.After(a.last) {
		a.last = at
	}
	a.seen[number]++
	return a.seen[number] == 1, nil
}

func (a *arrivals) addTo(add func(string, float64)) {
	for _, q := range []struct {
		metric   string
		quantile float64
	}{{"p50_ms", .5}, {"p99_ms", .99}, {"p999_ms", .999}, {"max_ms", 1}} {
		add(q.metric, figure.Ms(figure.Quantile(a.lateness, q.quantile)))
	}
	if len(a.fromSending) > 0 {
		add("late_p999_ms", figure.Ms(figure.Quantile(a.fromSending, .999)))
	}
	add("early", float64(a.early))
	add("within", 100*float64(a.within)/float64(max(len(a.lateness), 1)))
}

// preload puts n messages with the same deadline into the input.
func (s *kafkaStack) preload(ctx context.Context, n int, due time.Time) error {
	promises := &kgoPromises{}
	for i := range n {
		s.client.Produce(ctx, s.message(i, due, false), promises.keep)
	}
	if err := s.client.Flush(ctx); err != nil {
		return fmt.Errorf("preload messages: %w", err)
	}
	return promises.failed()
}

// drain starts bridges and returns the time from the first message that the bridges store to the
// n-th.
func (s *kafkaStack) drain(ctx context.Context, bridges, n int) (took time.Duration, err error) {
	if err := s.startBridges(ctx, bridges); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, burstLimit)
	defer cancel()
	var begun time.Time
	before := 0
	for {
		stored, err := s.stored(ctx)
		if err != nil {
			return 0, err
		}
		if stored > 0 && begun.IsZero() {
			begun, before = time.Now(), stored
		}
		if stored >= n {
			// The measured time does not cover the messages that were stored before the first look.
			return time.Since(begun) * time.Duration(n) / time.Duration(max(n-before, 1)), nil
		}
		if err := pause(ctx, sweepLook); err != nil {
			return 0, err
		}
	}
}

// stored is the number of messages that the bridges have stored. The number includes the messages
// that an earlier try had stored although its answer was lost.
func (s *kafkaStack) stored(ctx context.Context) (sum int, err error) {
	for _, admin := range s.admins {
		body, err := child.Ask(ctx, http.MethodGet, "http://"+admin+"/metrics")
		if err != nil {
			return 0, err
		}
		lines := bufio.NewScanner(bytes.NewReader(body))
		for lines.Scan() {
			series, value, _ := strings.Cut(lines.Text(), " ")
			if series == `chronos_bridge_messages_total{as="stored"}` || series == `chronos_bridge_messages_total{as="again"}` {
				count, err := strconv.ParseFloat(value, 64)
				if err != nil {
					return 0, fmt.Errorf("read metrics: %w", err)
				}
				sum += int(count)
			}
		}
	}
	return sum, nil
}

// fired is the rate at which due messages are appended to the output, in messages a second.
func (s *kafkaStack) fired(ctx context.Context, n int, due time.Time) (rate float64, err error) {
	bounded, cancel := context.WithDeadline(ctx, due.Add(burstLimit))
	defer cancel()
	came := &arrivals{seen: make([]int, n)}
	if err := s.read(bounded, came, n); err != nil {
		return 0, err
	}
	if came.early > 0 {
		return 0, fmt.Errorf("%w: %d messages were early", errWrong, came.early)
	}
	return float64(n) / came.last.Sub(came.first).Seconds(), nil
}
