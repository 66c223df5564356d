package processtest

import (
	"slices"
	"sync"
	"time"

	"chronos/scheduler/verify/history"
	"chronos/scheduler/webhook/webhooktest"
)

// journal records a run by the test's own monotonic clock. A journal is safe for concurrent
// use.
type journal struct {
	start   time.Time
	repairs time.Duration // see plan

	mu   sync.Mutex
	h    history.History
	from []string // the client's address, by callback
}

func newJournal(header history.Header, repairs time.Duration) *journal {
	return &journal{start: time.Now(), repairs: repairs, h: history.History{Header: header}}
}

func (j *journal) now() int64 { return int64(time.Since(j.start)) }

// add changes the history.
func (j *journal) add(do func(h *history.History)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	do(&j.h)
}

func (j *journal) operation(o history.Operation) {
	j.add(func(h *history.History) { h.Operations = append(h.Operations, o) })
}

func (j *journal) sample(s history.Sample) {
	j.add(func(h *history.History) { h.Samples = append(h.Samples, s) })
}

// begin records a fault that begins now; end records the end of the fault. A fault of class
// Slow may delay a callback by as long as the fault lasted.
func (j *journal) begin(f history.Fault) (end func()) {
	f.StartNs, f.EndNs = j.now(), -1
	at := 0
	j.add(func(h *history.History) { at = len(h.Faults); h.Faults = append(h.Faults, f) })
	return func() {
		now := j.now()
		j.add(func(h *history.History) {
			over := &h.Faults[at]
			if over.EndNs = now; over.Shard != "" {
				over.RepairedNs = now + int64(j.repairs)
			}
			if over.Class == history.Slow {
				over.LateMs = (now - over.StartNs) / int64(time.Millisecond)
			}
		})
	}
}

// call records a callback with its answer.
func (j *journal) call(receiver string, c webhooktest.Call, told webhooktest.Answer) {
	arrived := int64(c.Arrived.Sub(j.start))
	record := history.Callback{
		ArriveNs: arrived, URL: receiver + c.Target, BodyHash: history.HashOf(c.Body), ID: c.ID.String(), Key: c.ID.Key,
		Version: c.Version.String(), Seq: c.Seq, Attempt: c.Attempt, WebhookID: c.WebhookID, DueMs: c.Due.UnixMilli(),
		Status: max(told.Status, 200), AnsweredNs: arrived + int64(told.Delay),
	}
	j.add(func(h *history.History) { h.Callbacks, j.from = append(h.Callbacks, record), append(j.from, c.From) })
}

// finish ends the recording, and returns the history.
func (j *journal) finish(end history.End) history.History {
	end.AtNs = j.now()
	j.mu.Lock()
	defer j.mu.Unlock()
	h := j.h
	h.Operations, h.Callbacks, h.Faults = slices.Clone(h.Operations), slices.Clone(h.Callbacks), slices.Clone(h.Faults)
	h.End = &end
	return h
}

// name adds the calling node to every callback, by the port of the connection.
func (j *journal) name(h *history.History, nodes map[string]string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := range h.Callbacks {
		h.Callbacks[i].Node = nodes[hexPort(j.from[i])]
	}
}
