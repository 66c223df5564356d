package timerservice

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"
)

const (
	// lateness is how late a pop may arrive.
	lateness = 2 * time.Second
	// pollEvery is how often a wait looks at its condition.
	pollEvery = 10 * time.Millisecond
	// popPath is the path of the callbacks of most timers.
	popPath = "/pop"
)

// part is a statement of the API about the service. The function run first sets the timers of
// the part, and then calls bench.t.Parallel. The timers of all parts thus run at the same time,
// even if few tests may run at once.
type part struct {
	name string
	run  func(b *bench)
}

// Tap looks at the traffic.
type Tap interface {
	// Transport sends requests by base, and looks at requests and answers.
	Transport(t testing.TB, base http.RoundTripper) http.RoundTripper
	// Callbacks looks at callbacks on their way to next.
	Callbacks(t testing.TB, next http.Handler) http.Handler
}

// Run drives the service at the address through the public part of the API, with a subtest
// for every statement. Run returns when all subtests have ended.
func Run(t *testing.T, baseURL string, tap Tap) {
	t.Helper()
	var parts []part
	parts = append(parts, timingParts()...)
	parts = append(parts, callbackParts()...)
	parts = append(parts, identityParts()...)
	parts = append(parts, requestParts()...)
	parts = append(parts, transportParts()...)
	// The last part must wait before the part can set a second timer.
	parts = append(parts, part{"update after the end of a timer creates it anew", updateAfterEnd})

	t.Run("timerservice", func(t *testing.T) {
		for _, p := range parts {
			t.Run(p.name, func(t *testing.T) {
				p.run(newBench(t, baseURL, tap))
			})
		}
	})
}

// bench is the equipment of a part: an own client and an own callback receiver.
type bench struct {
	t        *testing.T
	client   *Client
	receiver *Receiver
	url      string // of the receiver
	tap      Tap
}

func newBench(t *testing.T, baseURL string, tap Tap) *bench {
	t.Helper()
	b := &bench{t: t, client: NewClient(baseURL), tap: tap}
	t.Cleanup(b.client.HTTP.CloseIdleConnections)
	b.client.HTTP.Transport = tap.Transport(t, b.client.HTTP.Transport)
	b.receiver, b.url = b.listen()
	return b
}

// listen starts a further receiver, until the end of the test.
func (b *bench) listen() (receiver *Receiver, address string) {
	receiver = &Receiver{}
	server := httptest.NewServer(b.tap.Callbacks(b.t, receiver))
	b.t.Cleanup(server.Close)
	return receiver, server.URL
}

// request is the time of a request: the service saw the request between sent and answered.
type request struct {
	sent     time.Time
	answered time.Time
}

// timed runs the call, and notes the time.
func timed(call func() (string, error)) (id string, when request, err error) {
	when.sent = time.Now()
	id, err = call()
	when.answered = time.Now()
	return id, when, err
}

// create sets a timer; the service must accept the timer.
func (b *bench) create(timer Timer) (id string, when request) {
	b.t.Helper()
	id, when, err := timed(func() (string, error) { return b.client.Create(b.t.Context(), timer) })
	if err != nil {
		b.t.Fatalf("create: %v", err)
	}
	return id, when
}

// update replaces a timer; the service must accept the update.
func (b *bench) update(id string, timer Timer) (newID string, when request) {
	b.t.Helper()
	newID, when, err := timed(func() (string, error) { return b.client.Update(b.t.Context(), id, timer) })
	if err != nil {
		b.t.Fatalf("update %q: %v", id, err)
	}
	return newID, when
}

// remove deletes a timer.
func (b *bench) remove(id string) {
	b.t.Helper()
	if err := b.client.Delete(b.t.Context(), id); err != nil {
		b.t.Fatalf("delete %q: %v", id, err)
	}
}

// send makes a request with an unchanged body.
func (b *bench) send(method, path, body string) Answer {
	b.t.Helper()
	answer, err := b.client.Send(b.t.Context(), method, path, []byte(body))
	if err != nil {
		b.t.Fatalf("%s %s: %v", method, path, err)
	}
	return answer
}

// refused checks that the answer to the body is a 400 with a reason.
func (b *bench) refused(method, path, body string) {
	b.t.Helper()
	answer := b.send(method, path, body)
	if answer.Status != http.StatusBadRequest {
		b.t.Errorf("%s %s of %s: status %d, want 400", method, path, body, answer.Status)
	}
	if answer.Reason == "" {
		b.t.Errorf("%s %s of %s: no Reason header", method, path, body)
	}
}

// isRefusal tells whether the error is a 400 with a reason.
func isRefusal(err error) bool {
	var status *StatusError
	return errors.As(err, &status) && status.Status == http.StatusBadRequest && status.Reason != ""
}

// popTimes checks that the timer pops count times on the path: every pop after its interval
// and not too late, and no further pop.
func (b *bench) popTimes(path string, when request, interval time.Duration, count int) []Pop {
	b.t.Helper()
	due := time.Duration(count) * interval
	b.waitFor(when.answered.Add(due+lateness), func() bool { return len(b.receiver.Pops(path)) >= count })
	pops := b.receiver.Pops(path)
	if len(pops) < count {
		b.t.Fatalf("%s: %d pops, want %d", path, len(pops), count)
	}
	for i, pop := range pops[:count] {
		after := time.Duration(i+1) * interval
		if early := when.sent.Add(after).Sub(pop.At); early > 0 {
			b.t.Errorf("%s: pop %d is early by %v", path, i+1, early)
		}
		if late := pop.At.Sub(when.answered.Add(after)); late > lateness {
			b.t.Errorf("%s: pop %d is late by %v", path, i+1, late)
		}
	}
	b.noMoreThan(path, count, when.answered.Add(due+interval+lateness))
	return pops[:count]
}

// noMoreThan checks that at most count pops come to the path until the time.
func (b *bench) noMoreThan(path string, count int, until time.Time) {
	b.t.Helper()
	b.waitFor(until, func() bool { return len(b.receiver.Pops(path)) > count })
	if got := len(b.receiver.Pops(path)); got > count {
		b.t.Errorf("%s: %d pops, want at most %d", path, got, count)
	}
}

// waitFor waits until the condition holds or the time has come.
func (b *bench) waitFor(until time.Time, condition func() bool) {
	ctx, cancel := context.WithDeadline(b.t.Context(), until)
	defer cancel()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for !condition() {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// sequence returns the sequence numbers of the pops.
func (b *bench) sequence(pops []Pop) []uint64 {
	b.t.Helper()
	numbers := make([]uint64, 0, len(pops))
	for _, pop := range pops {
		number, err := strconv.ParseUint(pop.Sequence, 10, 64)
		if err != nil {
			b.t.Fatalf("%s: X-Sequence-Number %q is no number: %v", pop.Path, pop.Sequence, err)
		}
		numbers = append(numbers, number)
	}
	return numbers
}

// unusedID returns a timer ID that no earlier run can have used.
func unusedID(prefix string) string {
	return fmt.Sprintf("%s%016x", prefix, time.Now().UnixNano())
}
