package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"chronos/scheduler/dispatch"
	"chronos/scheduler/kafka/message"
	"chronos/scheduler/kafka/output"
	"chronos/scheduler/replica"
	"chronos/scheduler/timer"
)

// audit compares every commit, when the commit comes to the brokers, with the acknowledgements until
// then.
type audit struct {
	mu      sync.Mutex
	acked   map[string]bool      // origins
	serials map[string][2]string // by origin: id and number of a published record
	last    int64                // number
	sent    map[string]string    // by id: the numbers of records that were sent to the output
	sound   map[int32]int64      // by partition: all offsets below are acknowledged
	doubts  []doubt
	commits []commit
}

// commit is an offset that a member of the group has committed.
type commit struct {
	member    string
	partition int32
	offset    int64
}

func (a *audit) ack(origin string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.acked[origin] = true
}

// OnProduceRecordUnbuffered implements a hook of kgo: a dead letter is acknowledged here.
func (a *audit) OnProduceRecordUnbuffered(r *kgo.Record, err error) {
	if err == nil && headerOf(r, output.TopicHeader) != "" {
		a.ack(headerOf(r, output.TopicHeader) + "/" + headerOf(r, output.PartitionHeader) + "/" + headerOf(r, output.OffsetHeader))
	}
}

func (a *audit) commit(request kmsg.Request) {
	r, ok := request.(*kmsg.OffsetCommitRequest)
	if !ok {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, topic := range r.Topics {
		for _, p := range topic.Partitions {
			a.commits = append(a.commits, commit{r.MemberID, p.Partition, p.Offset})
			for a.sound[p.Partition] < p.Offset {
				origin := (message.Origin{Topic: "in", Partition: p.Partition, Offset: a.sound[p.Partition]}).String()
				if !a.acked[origin] {
					a.doubts = append(a.doubts, doubt{
						fmt.Sprintf("%d of partition %d is committed, and %s is not acknowledged", p.Offset, p.Partition, origin), origin, maps.Clone(a.sent),
					})
				}
				a.sound[p.Partition]++
			}
		}
	}
}

// OnProduceRecordBuffered implements a hook of kgo: from here on a late message has its id.
func (a *audit) OnProduceRecordBuffered(r *kgo.Record) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := headerOf(r, serialHeader); n != "" && r.Topic == "out" {
		a.sent[headerOf(r, message.IDHeader)] += n + " "
	}
}

const serialHeader = "serial"

// number gives every record a number, by which the audit tells records of the same id apart.
func (a *audit) number(all []*kgo.Record) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range all {
		a.last++
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: serialHeader, Value: strconv.AppendInt(nil, a.last, 10)})
	}
}

// produced notes where these records stand.
func (a *audit) produced(all []*kgo.Record) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range all {
		a.serials[message.Origin{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset}.String()] = [2]string{headerOf(r, message.IDHeader), headerOf(r, serialHeader)}
	}
}

// doubt is a commit of a record that was not acknowledged.
type doubt struct {
	text, origin string
	sent         map[string]string // until then
}

// another reports whether another record of the id had been sent to the output: the record of s may
// then count for nothing.
func (d *doubt) another(s [2]string) bool {
	return slices.ContainsFunc(strings.Fields(d.sent[s[0]]), func(n string) bool { return n != s[1] })
}

// forget begins with another topic.
func (a *audit) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.acked)
	clear(a.sound)
}

func (a *audit) all() []commit {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.commits)
}

func (a *audit) end() (faults []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, d := range a.doubts {
		if !d.another(a.serials[d.origin]) {
			faults = append(faults, d.text)
		}
	}
	return faults
}

// fakeTimers keep messages in memory. The test decides the answer to every call, and when the answer
// comes.
type fakeTimers struct {
	audit   *audit
	mu      sync.Mutex
	decide  func(ctx context.Context, call string, a *replica.Admission) error // before the call is carried out; may block
	waiting map[string]replica.Admission
	over    map[string]string // origins
	calls   map[string]int    // of admissions that were carried out
	asking  map[string]int    // of admissions without a decision so far
}

const (
	admit    = "admit"
	known    = "known"
	remember = "remember"
)

var errDown = fmt.Errorf("%w: a test has it so", timer.ErrUnavailable)

func newFakeTimers(a *audit) *fakeTimers {
	return &fakeTimers{audit: a, waiting: make(map[string]replica.Admission), over: make(map[string]string), calls: make(map[string]int), asking: make(map[string]int)}
}

func (f *fakeTimers) Admit(ctx context.Context, all []replica.Admission) { f.each(ctx, admit, all) }
func (f *fakeTimers) Known(ctx context.Context, all []replica.Admission) { f.each(ctx, known, all) }
func (f *fakeTimers) Remember(ctx context.Context, all []replica.Admission) {
	f.each(ctx, remember, all)
}

func (f *fakeTimers) set(decide func(ctx context.Context, call string, a *replica.Admission) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.decide = decide
}

// fail has all calls of these kinds fail from now on; no kinds for no failures.
func (f *fakeTimers) fail(calls ...string) {
	f.set(func(_ context.Context, call string, _ *replica.Admission) error {
		if slices.Contains(calls, call) {
			return errDown
		}
		return nil
	})
}

func (f *fakeTimers) each(ctx context.Context, call string, all []replica.Admission) {
	f.mu.Lock()
	decide := f.decide
	f.asking[call] += len(all)
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.asking[call] -= len(all)
	}()
	for i := range all {
		a := &all[i]
		a.Standing, a.Err = replica.StandingUnknown, nil
		if decide != nil {
			a.Err = decide(ctx, call, a)
		}
		if a.Err == nil {
			f.carryOut(call, a)
		}
		if call == remember { // the message is published, whatever the answer
			f.audit.ack(placeOf(a))
		}
	}
}

func (f *fakeTimers) carryOut(call string, a *replica.Admission) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[call]++
	w, waits := f.waiting[a.Key]
	switch {
	case call == remember:
		if !waits {
			f.over[a.Key] = a.Origin
		}
	case waits && w.Origin == a.Origin, !waits && f.over[a.Key] == a.Origin:
		a.Standing = replica.StandingAgain
	case waits:
		a.Standing = replica.StandingDuplicate
	default:
		a.Standing = replica.StandingNew
		if call == known {
			return
		}
		f.waiting[a.Key] = *a
	}
	f.audit.ack(placeOf(a))
}

// fire has a bridge publish the message that waits under the key.
func (f *fakeTimers) fire(ctx context.Context, b *bridge, key string) dispatch.Delivered {
	f.mu.Lock()
	a, ok := f.waiting[key]
	f.mu.Unlock()
	if !ok {
		return dispatch.Delivered{Reason: "nothing waits under " + key}
	}
	delivered := b.Deliver(ctx, dispatch.Delivery{Callback: a.Timer.Callback, ID: timer.ID{Key: key}, Attempt: 1, Due: a.Timer.At})
	if delivered.Verdict == dispatch.VerdictDelivered {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.waiting, key)
		f.over[key] = a.Origin
	}
	return delivered
}

func (f *fakeTimers) keys() (keys []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key := range f.waiting {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func (f *fakeTimers) count(call string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[call]
}

// held is how many admissions have no answer yet.
func (f *fakeTimers) held(call string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asking[call]
}

// gate holds callers back until the gate is opened or the caller gives up.
type gate chan struct{}

func (g gate) wait(ctx context.Context) error {
	select {
	case <-g:
		return nil
	case <-ctx.Done():
		return errors.Join(errDown, ctx.Err())
	}
}

// placeOf is where an admission's record stands on the topic.
func placeOf(a *replica.Admission) string {
	place, _, _ := strings.Cut(a.Origin, "@")
	return place
}
