package main

import (
	"fmt"
	"os"
	"sync"
	"time"

	"chronos/loadtest/check"
	"chronos/scheduler/verify/history"
)

// journal writes the callbacks and operations of the receiver as a history, for the judge. A journal is safe for
// concurrent use. A nil journal writes nothing.
type journal struct {
	file  *os.File
	out   *history.Writer
	begun time.Time

	mu  sync.Mutex
	err error // first error
}

// newJournal begins the file. newJournal assumes that the settings of the node are the defaults.
func newJournal(path string) (*journal, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("begin history: %w", err)
	}
	j := &journal{file: file, out: history.NewWriter(file), begun: time.Now()}
	j.write(history.Event{Header: &history.Header{
		Mode: history.Load, Shards: []string{"main"}, RF: 1, SkewMinMs: 250, SkewMaxMs: 2000,
		HoldMs: 3500, LimitMs: answerLimit.Milliseconds(), PollMs: 100, Attempts: 5,
		Exempt: []history.Invariant{history.NoLeaks, history.CopiesAtHome, history.BackToNormal, history.MetricsAgree},
	}})
	return j, nil
}

func (j *journal) write(e history.Event) {
	if err := j.out.Write(e); err != nil {
		j.mu.Lock()
		defer j.mu.Unlock()
		if j.err == nil {
			j.err = err
		}
	}
}

// at is an instant on the history's clock.
func (j *journal) at(t time.Time) int64 { return t.Sub(j.begun).Nanoseconds() }

// callback writes a callback to the history, once the callback has been answered.
func (j *journal) callback(cb *check.Callback, path, webhookID string, body []byte, status int) {
	if j == nil {
		return
	}
	j.write(history.Event{Callback: &history.Callback{
		ArriveNs: j.at(cb.Arrived), URL: path, BodyHash: history.HashOf(body), ID: cb.TimerID, Key: cb.Key, Version: cb.Version,
		Seq: cb.Sequence, Attempt: cb.Attempt, WebhookID: webhookID, DueMs: cb.Due.UnixMilli(), Status: status, AnsweredNs: j.at(time.Now()),
	}})
}

// operation writes an operation to the history. The times are rounded apart to whole milliseconds.
func (j *journal) operation(op *check.Operation) {
	if j == nil {
		return
	}
	o := &history.Operation{
		Kind: history.Create, Outcome: history.OK, Status: 200,
		InvokeNs: j.at(time.UnixMilli(op.SentMs)), ReturnNs: j.at(time.UnixMilli(op.AnsweredMs + 1)),
	}
	if !op.OK {
		o.Outcome, o.Status = history.Unknown, 0
	} else {
		o.Answer = &history.Answer{ID: op.ID, Key: check.KeyOf(op.ID), InFlight: op.InFlight}
	}
	switch op.Op {
	case check.Refresh:
		o.Kind = history.Replace
	case check.End:
		o.Kind = history.Delete
	case check.Create:
	}
	if op.Op != check.Create {
		o.ID, o.Key = op.ID, check.KeyOf(op.ID)
	}
	if op.Op != check.End {
		o.Timer = &history.Asked{
			IntervalMs: op.IntervalMs, Pops: op.Pops, URL: fmt.Sprintf("/cb/%s/%d", op.Session, op.Revision), BodyHash: history.HashOf(op.Body),
		}
		if op.Pops > 1 {
			o.Timer.RepeatForMs = int64(op.Pops) * op.IntervalMs
		}
	}
	j.write(history.Event{Operation: o})
}

// end completes the history and closes the file.
func (j *journal) end() error {
	if j == nil {
		return nil
	}
	j.write(history.Event{End: &history.End{AtNs: j.at(time.Now()), DumpNs: -1}})
	err := j.out.Flush()
	if cerr := j.file.Close(); err == nil && cerr != nil {
		err = fmt.Errorf("close history: %w", cerr)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err != nil {
		return j.err
	}
	return err
}
