package history

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Kind is the kind of an operation.
type Kind string

// The kinds of operations.
const (
	Create  Kind = "create"  // POST
	Replace Kind = "replace" // PUT, also of a missing timer
	Patch   Kind = "patch"   // PATCH without timing
	Delete  Kind = "delete"
	Get     Kind = "get"
	Fire    Kind = "fire"  // the next pop is due now
	Delay   Kind = "delay" // the next pop, and the pops behind, come later
)

// Outcome is the result of an operation as far as the client knows.
type Outcome string

// The outcomes.
const (
	OK      Outcome = "ok"      // done as the answer says; also a GET with 404
	Failed  Outcome = "failed"  // refused: a 4xx; a 409 or 5xx of a write counts as unknown even if Failed
	Unknown Outcome = "unknown" // may have taken effect, or may still take effect
)

// maxTime bounds how far into the future a timer reaches: 100 years.
const maxTime = 100 * 365 * 24 * time.Hour

// Operation is a request of a client with its outcome, written when the request returned, or at the end with ReturnNs
// -1.
type Operation struct {
	Kind Kind `json:"kind"`
	// InvokeNs is read before the request is sent. ReturnNs is read after the answer was read; -1 without an answer.
	InvokeNs int64   `json:"invoke_ns"`
	ReturnNs int64   `json:"return_ns"`
	Outcome  Outcome `json:"outcome"`
	Node     string  `json:"node,omitempty"`
	// ID is the id as sent, Key the timer's key in the id. A create has an empty ID and an empty Key.
	ID  string `json:"id,omitempty"`
	Key string `json:"key,omitempty"`
	// Timer is the timer that a create or replace asks for, or that a patch makes of Base.
	Timer *Asked `json:"timer,omitempty"`
	// Base is the timer that a patch has read; nil if the patch has read none, and so has done nothing.
	Base *Asked `json:"base,omitempty"`
	// If is the condition of a replace, patch, delete, fire or delay: "present", "absent", or the version that the timer must have. A write
	// whose condition did not hold has the status 412.
	If string `json:"if,omitempty"`
	// ByMs is how much later the pops come after a delay.
	ByMs int64 `json:"by_ms,omitempty"`
	// IdempotencyKey is as sent. Creates with the same IdempotencyKey are one write.
	IdempotencyKey string `json:"idempotency_key,omitempty"`
	// Status is the answer's status code, 0 without an answer.
	Status int `json:"status,omitempty"`
	// Answer is the answer to a successful create, replace, patch or delete.
	Answer *Answer `json:"answer,omitempty"`
	// Read is the timer that a GET read, nil for a 404.
	Read *Read `json:"read,omitempty"`
}

// Asked is a timer as asked for. URL and BodyHash together differ between any two writes of a run, except repeats
// with the same Idempotency-Key.
type Asked struct {
	IntervalMs  int64 `json:"interval_ms"`
	RepeatForMs int64 `json:"repeat_for_ms,omitempty"`
	// Pops is the number of pops asked for, at least 1.
	Pops int `json:"pops"`
	// AtNs is the instant of the first pop, nil if the interval says when.
	AtNs *int64 `json:"at_ns,omitempty"`
	// RF is the replication factor asked for, 0 for the header's.
	RF       int    `json:"rf,omitempty"`
	URL      string `json:"url"`
	BodyHash string `json:"body_hash"`
	// TimeoutMs is how long an answer to a callback may take, 0 for the header's limit. ExpiresMs is how long after
	// its due time a pop is attempted, 0 for no bound.
	TimeoutMs int64 `json:"timeout_ms,omitempty"`
	ExpiresMs int64 `json:"expires_ms,omitempty"`
	Retry     Retry `json:"retry,omitzero"`
}

// Retry is when further attempts follow a failed attempt. The zero value of a member stands for the default.
type Retry struct {
	Attempts  int     `json:"attempts,omitempty"` // at a pop; 0 for the header's
	FirstMs   int64   `json:"first_ms,omitempty"`
	Factor    float64 `json:"factor,omitempty"`
	LongestMs int64   `json:"longest_ms,omitempty"`
}

// Answer is the answer to a write.
type Answer struct {
	ID  string `json:"id,omitempty"`
	Key string `json:"key,omitempty"`
	// Version is the version of the timer, as callbacks have the version; empty if the answer does not say.
	Version string `json:"version,omitempty"`
	// DueMs is the due time as answered, since 1970, by a shard's clock. DueMs is not judged.
	DueMs int64 `json:"due_ms,omitempty"`
	// Copies is the number of copies that the answer names.
	Copies    int  `json:"copies,omitempty"`
	InFlight  bool `json:"in_flight,omitempty"`
	Unreached int  `json:"unreached,omitempty"`
	// Untold is the number of sites that don't have all copies of the write, as the answer says.
	Untold int `json:"untold,omitempty"`
}

// Read is a timer in the answer to a GET.
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
	case Patch:
		switch {
		case o.Key == "":
			return errors.New("key is empty")
		case o.Timer == nil || o.Base == nil && o.Outcome == OK:
			return errors.New("timer or base is missing")
		}
		return nil
	case Delete, Get, Fire, Delay:
		switch {
		case o.Key == "":
			return errors.New("key is empty")
		case (o.Kind == Delay) != (o.ByMs > 0):
			return errors.New("a delay, and nothing else, needs by_ms above 0")
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
	case t.IntervalMs == 0 && t.Pops > 1:
		return errors.New("a timer with several pops needs an interval")
	}
	return nil
}

func (o *Operation) invoked() time.Duration { return time.Duration(o.InvokeNs) }

// returned is when the answer was read; the constant never without an answer.
func (o *Operation) returned() time.Duration {
	if o.ReturnNs == -1 {
		return never
	}
	return time.Duration(o.ReturnNs)
}

// done is the instant by which the operation has taken effect, if the operation ever does. An operation of unknown
// outcome takes effect within the given time of its invocation, or before the return.
func (o *Operation) done(within time.Duration) time.Duration {
	switch {
	case !o.uncertain():
		return o.returned()
	case o.ReturnNs == -1:
		return later(o.invoked(), within)
	}
	return max(later(o.invoked(), within), o.returned())
}

// refused tells whether the operation certainly had no effect. A patch that has read nothing has done nothing.
func (o *Operation) refused() bool {
	return o.Kind == Patch && o.Base == nil || o.Outcome == Failed && o.Status >= http.StatusBadRequest && o.Status < http.StatusInternalServerError && !o.overtaken()
}

// overtaken tells whether a newer write replaced the operation. The operation may have been in force for a moment.
func (o *Operation) overtaken() bool { return o.writes() && o.Status == http.StatusConflict }

// uncertain tells whether the operation may or may not have taken effect, or may still take effect.
func (o *Operation) uncertain() bool { return o.Outcome != OK && !o.refused() }

func (o *Operation) writes() bool { return o.Kind != Get && !o.moves() }

// moves tells whether the operation moves the pops of a timer and changes nothing else.
func (o *Operation) moves() bool { return o.Kind == Fire || o.Kind == Delay }

// replaces tells whether the operation ends the timer's pops, or begins anew.
func (o *Operation) replaces() bool { return o.writes() && o.Kind != Patch }

// about is the key of the timer, empty for a create without a known answer.
func (o *Operation) about() string {
	if o.Answer != nil && o.Answer.Key != "" {
		return o.Answer.Key
	}
	return o.Key
}
