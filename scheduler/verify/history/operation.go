package history

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Kind says what an operation does to its timer.
type Kind string

// The kinds of operations.
const (
	Create  Kind = "create"  // POST
	Replace Kind = "replace" // PUT, also of a key that is not there
	Delete  Kind = "delete"
	Get     Kind = "get"
)

// Outcome says what a client knows of its operation.
type Outcome string

// The outcomes.
const (
	OK      Outcome = "ok"      // done as the answer says; also a GET that says 404
	Failed  Outcome = "failed"  // refused: a 4xx; a 409 and a 5xx of a write count as unknown whatever is written here
	Unknown Outcome = "unknown" // may have taken effect, or may yet
)

// maxTime is how far into the future a timer reaches at most, 100 years.
const maxTime = 100 * 365 * 24 * time.Hour

// Operation is one request of a client and what came of it, written when it returned or, with ReturnNs -1, at the end.
type Operation struct {
	Kind Kind `json:"kind"`
	// InvokeNs is read before the request is sent, ReturnNs after its answer was read; -1 if none came.
	InvokeNs int64   `json:"invoke_ns"`
	ReturnNs int64   `json:"return_ns"`
	Outcome  Outcome `json:"outcome"`
	Node     string  `json:"node,omitempty"`
	// ID is the id as sent, Key the timer's key in it; both empty for a create.
	ID  string `json:"id,omitempty"`
	Key string `json:"key,omitempty"`
	// Timer is what a create or replace asks for.
	Timer *Asked `json:"timer,omitempty"`
	// IdempotencyKey is as sent. Creates with the same one are one write.
	IdempotencyKey string `json:"idempotency_key,omitempty"`
	// Status is the answer's status code, 0 without one.
	Status int `json:"status,omitempty"`
	// Answer is what a successful create, replace or delete was answered.
	Answer *Answer `json:"answer,omitempty"`
	// Read is what a GET read, nil if it said 404.
	Read *Read `json:"read,omitempty"`
}

// Asked is a timer as asked for. URL and BodyHash together differ between any two writes of a run, repeats with the same
// Idempotency-Key excepted.
type Asked struct {
	IntervalMs  int64 `json:"interval_ms"`
	RepeatForMs int64 `json:"repeat_for_ms,omitempty"`
	// Pops is the number of pops asked for, at least 1.
	Pops int `json:"pops"`
	// AtNs is the instant of the only pop, nil if the interval says when.
	AtNs *int64 `json:"at_ns,omitempty"`
	// RF is the replication factor asked for, 0 for the header's.
	RF       int    `json:"rf,omitempty"`
	URL      string `json:"url"`
	BodyHash string `json:"body_hash"`
}

// Answer is what a write was answered.
type Answer struct {
	ID  string `json:"id,omitempty"`
	Key string `json:"key,omitempty"`
	// DueMs is the due time as answered, since 1970. It is by a shard's clock and not judged.
	DueMs int64 `json:"due_ms,omitempty"`
	// Copies is the number of copies that the answer names.
	Copies    int  `json:"copies,omitempty"`
	InFlight  bool `json:"in_flight,omitempty"`
	Unreached int  `json:"unreached,omitempty"`
}

// Read is a timer as a GET showed it.
type Read struct {
	Seq      int    `json:"seq"`
	State    string `json:"state"`
	URL      string `json:"url"`
	BodyHash string `json:"body_hash"`
}

func (o *Operation) validate() error {
	switch o.Outcome {
	case OK, Failed, Unknown:
	default:
		return fmt.Errorf("outcome %q is unknown", o.Outcome)
	}
	switch {
	case o.ReturnNs != -1 && o.ReturnNs < o.InvokeNs:
		return fmt.Errorf("invoke_ns %d, return_ns %d: not in order", o.InvokeNs, o.ReturnNs)
	case o.ReturnNs == -1 && o.Outcome != Unknown:
		return fmt.Errorf("outcome %q without a return", o.Outcome)
	}
	switch o.Kind {
	case Create, Replace:
		return o.validateWrite()
	case Delete, Get:
		if o.Key == "" {
			return errors.New("key is empty")
		}
		return nil
	default:
		return fmt.Errorf("kind %q is unknown", o.Kind)
	}
}

func (o *Operation) validateWrite() error {
	t := o.Timer
	switch {
	case t == nil:
		return errors.New("timer is missing")
	case o.Kind == Replace && o.Key == "":
		return errors.New("key is empty")
	case o.Outcome == OK && (o.Answer == nil || o.Answer.Key == ""):
		return errors.New("answer names no key")
	case t.Pops < 1 || t.IntervalMs < 0 || t.RF < 0:
		return fmt.Errorf("pops %d, interval_ms %d, rf %d: out of range", t.Pops, t.IntervalMs, t.RF)
	case t.IntervalMs > 0 && int64(t.Pops) > maxTime.Milliseconds()/t.IntervalMs:
		return fmt.Errorf("%d pops of %d ms reach beyond 100 years", t.Pops, t.IntervalMs)
	case (t.IntervalMs == 0 || t.AtNs != nil) && t.Pops > 1:
		return errors.New("a timer with several pops needs an interval and no at")
	}
	return nil
}

func (o *Operation) invoked() time.Duration { return time.Duration(o.InvokeNs) }

// returned is never without an answer.
func (o *Operation) returned() time.Duration {
	if o.ReturnNs == -1 {
		return never
	}
	return time.Duration(o.ReturnNs)
}

// done is when the operation has taken effect, if it does at all: one of unknown outcome within so long of its invocation,
// or before it was answered.
func (o *Operation) done(within time.Duration) time.Duration {
	switch {
	case !o.uncertain():
		return o.returned()
	case o.ReturnNs == -1:
		return later(o.invoked(), within)
	}
	return max(later(o.invoked(), within), o.returned())
}

// refused tells that the operation certainly had no effect.
func (o *Operation) refused() bool {
	return o.Outcome == Failed && o.Status >= http.StatusBadRequest && o.Status < http.StatusInternalServerError && !o.overtaken()
}

// overtaken tells that a newer write replaced this one, which may have been in force for a
// moment.
func (o *Operation) overtaken() bool { return o.writes() && o.Status == http.StatusConflict }

// uncertain tells that the operation may have taken effect, or may yet.
func (o *Operation) uncertain() bool { return o.Outcome != OK && !o.refused() }

func (o *Operation) writes() bool { return o.Kind != Get }

// about is the key of the timer, empty for a create whose answer is not known.
func (o *Operation) about() string {
	if o.Answer != nil && o.Answer.Key != "" {
		return o.Answer.Key
	}
	return o.Key
}
