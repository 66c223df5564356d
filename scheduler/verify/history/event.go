package history

import (
	"errors"
	"fmt"
	"time"
)

// Event is a line of a history. Exactly one field is set.
type Event struct {
	Header    *Header    `json:"header,omitempty"`
	Operation *Operation `json:"operation,omitempty"`
	Callback  *Callback  `json:"callback,omitempty"`
	Fault     *Fault     `json:"fault,omitempty"`
	Home      *Home      `json:"home,omitempty"`
	Copy      *Copy      `json:"copy,omitempty"`
	Stray     *Stray     `json:"stray,omitempty"`
	Sample    *Sample    `json:"sample,omitempty"`
	End       *End       `json:"end,omitempty"`
}

// Mode is the purpose of a run.
type Mode string

// The modes.
const (
	Safety   Mode = "safety"   // faults last to the end: invariants that need a healed run are not judged
	Liveness Mode = "liveness" // the run heals before the end
	Load     Mode = "load"     // real processes under load
)

// Header is the first line: the parameters of the run.
type Header struct {
	Mode      Mode   `json:"mode"`
	Seed      uint64 `json:"seed"`
	Reproduce string `json:"reproduce,omitempty"` // the command that repeats the run
	// Shards are the names of all shards of the topology at the start.
	Shards []string `json:"shards"`
	// RF is the replication factor of a timer that asks for no factor.
	RF int `json:"rf"`
	// SkewMinMs and SkewMaxMs bound the skew, the delay between two neighbouring ranks.
	SkewMinMs int64 `json:"skew_min_ms"`
	SkewMaxMs int64 `json:"skew_max_ms"`
	// HoldMs is the hold time, LimitMs how long an answer to a callback may take, PollMs the time between two polls.
	HoldMs  int64 `json:"hold_ms"`
	LimitMs int64 `json:"limit_ms"`
	PollMs  int64 `json:"poll_ms"`
	// Attempts is how often a callback is tried in all.
	Attempts int `json:"attempts"`
	// Exempt are the invariants for which the harness has nothing to judge by. If any further invariant can't be
	// judged, the run is unknown.
	Exempt []Invariant `json:"exempt,omitempty"`
}

// End is the last line, written once.
type End struct {
	// AtNs is when the recording of callbacks ended.
	AtNs int64 `json:"at_ns"`
	// DumpNs is when the shards were dumped, -1 without a dump.
	DumpNs int64 `json:"dump_ns"`
	// Drained says that only timers with pops to come should be left.
	Drained bool `json:"drained"`
	// Active are the shards that took timers at the dump; empty if unknown, or if all shards took timers.
	Active []string `json:"active,omitempty"`
	// Stuck names the nodes that worked again only after a restart, although no fault had ended the nodes.
	Stuck []string `json:"stuck,omitempty"`
}

func (e *Event) validate() error {
	var set []error
	count := 0
	note := func(is bool, validate func() error) {
		if is {
			count++
			set = append(set, validate())
		}
	}
	fine := func() error { return nil }
	note(e.Header != nil, func() error { return e.Header.validate() })
	note(e.Operation != nil, func() error { return e.Operation.validate() })
	note(e.Callback != nil, func() error { return e.Callback.validate() })
	note(e.Fault != nil, func() error { return e.Fault.validate() })
	note(e.Home != nil, fine)
	note(e.Copy != nil, fine)
	note(e.Stray != nil, fine)
	note(e.Sample != nil, func() error { return e.Sample.validate() })
	note(e.End != nil, fine)
	if count != 1 {
		return fmt.Errorf("event has %d members; it needs exactly one", count)
	}
	return errors.Join(set...)
}

func (h *Header) validate() error {
	switch h.Mode {
	case Safety, Liveness, Load:
	default:
		return fmt.Errorf("mode %q is unknown", h.Mode)
	}
	switch {
	case h.RF < 1 || h.Attempts < 1:
		return fmt.Errorf("rf %d, attempts %d: each is at least 1", h.RF, h.Attempts)
	case h.LimitMs <= 0 || h.HoldMs <= 0 || h.PollMs <= 0:
		return fmt.Errorf("limit_ms %d, hold_ms %d, poll_ms %d: each is above 0", h.LimitMs, h.HoldMs, h.PollMs)
	case h.SkewMinMs < 0 || h.SkewMaxMs < h.SkewMinMs:
		return fmt.Errorf("skew_min_ms %d, skew_max_ms %d: not in order", h.SkewMinMs, h.SkewMaxMs)
	}
	for _, i := range h.Exempt {
		if i.String() == "" {
			return fmt.Errorf("exempt: no invariant %d", i)
		}
	}
	return nil
}

func (h *Header) hold() time.Duration  { return ms(h.HoldMs) }
func (h *Header) limit() time.Duration { return ms(h.LimitMs) }

// skew is the delay between two neighbouring ranks of a timer.
func (h *Header) skew(interval time.Duration, rf int) time.Duration {
	if interval <= 0 {
		return ms(h.SkewMaxMs)
	}
	return min(max(interval/time.Duration(rf), ms(h.SkewMinMs)), ms(h.SkewMaxMs))
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
