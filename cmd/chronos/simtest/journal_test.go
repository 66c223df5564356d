package simtest

import (
	"slices"
	"sync"
	"time"

	"chronos/scheduler/verify/history"
	"chronos/scheduler/webhook/webhooktest"
)

// journal records a run. A journal is safe for concurrent use and blocks only on its mutex.
type journal struct {
	start time.Time

	mu     sync.Mutex
	h      history.History
	dumped time.Duration // 0 without a dump
	active []string      // at the dump, the shards that take timers
}

func newJournal(header history.Header) *journal {
	return &journal{start: time.Now(), h: history.History{Header: header}}
}

// now is the run's own clock.
func (j *journal) now() time.Duration { return time.Since(j.start) }

func (j *journal) operation(o history.Operation) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.h.Operations = append(j.h.Operations, o)
}

func (j *journal) fault(f history.Fault) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.h.Faults = append(j.h.Faults, f)
}

// call records a callback and its answer.
func (j *journal) call(c webhooktest.Call, answer webhooktest.Answer) {
	arrived := c.Arrived.Sub(j.start)
	record := history.Callback{
		ArriveNs: int64(arrived), URL: urlAt(c.Target), BodyHash: history.HashOf(c.Body), ID: c.ID.String(), Key: c.ID.Key,
		Version: c.Version.String(), Seq: c.Seq, Attempt: c.Attempt, WebhookID: c.WebhookID, DueMs: c.Due.UnixMilli(),
		Node: c.From, Status: answer.Status, AnsweredNs: int64(arrived + answer.Delay),
	}
	switch {
	case answer.Hang, answer.Drop:
		record.Status, record.AnsweredNs = 0, -1
	case record.Status == 0:
		record.Status = 200
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.h.Callbacks = append(j.h.Callbacks, record)
}

// left notes the callbacks whose callers had gone before the answer.
func (j *journal) left(calls []webhooktest.Call) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i, c := range calls {
		if c.Left && i < len(j.h.Callbacks) {
			j.h.Callbacks[i].Status, j.h.Callbacks[i].AnsweredNs = 0, -1
		}
	}
}

// finish ends the recording and returns the history.
func (j *journal) finish(drained bool) *history.History {
	j.mu.Lock()
	defer j.mu.Unlock()
	h := j.h
	h.Operations, h.Callbacks, h.Faults = slices.Clone(h.Operations), slices.Clone(h.Callbacks), slices.Clone(h.Faults)
	h.End = &history.End{AtNs: int64(j.now()), DumpNs: -1, Drained: drained, Active: j.active}
	if j.dumped != 0 {
		h.End.DumpNs = int64(j.dumped)
	}
	return &h
}

// forgetUnheard removes the answers to callbacks that never reached the node: the link lost the answer during
// the write, or the connection was cut before.
func forgetUnheard(h *history.History) {
	for _, f := range h.Faults {
		switch kind(f.Kind) {
		case outCut, outHole, outLose:
		default:
			continue
		}
		for i := range h.Callbacks {
			c := &h.Callbacks[i]
			cut := kind(f.Kind) == outCut && c.ArriveNs <= f.StartNs
			if c.Node == f.Node && c.AnsweredNs >= f.StartNs && (cut || c.AnsweredNs < f.EndNs) {
				c.Status, c.AnsweredNs = 0, -1
			}
		}
	}
}

// dump records the contents of the shards at an instant.
func (j *journal) dump(at time.Duration, copies []history.Copy, strays []history.Stray, homes []history.Home, active []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.dumped, j.h.Copies, j.h.Strays, j.h.Homes, j.active = at, copies, strays, append(j.h.Homes, homes...), active
}
