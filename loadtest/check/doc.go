// Package check judges callbacks. Each callback must come on time, once and unaltered; no callback may come after the
// request was ended or replaced.
//
// The load generator makes each answered request known to the Checker (Tell), with two instants: before the request was
// sent, and after the answer was read. The receiver of callbacks hands over each callback with the arrival (Arrive).
// All instants are from the wall clock of the same machine. Package check reads no clock, so a test may use any
// instants.
//
// A callback names its request in the path, /cb/<session>/<revision>. A session is the load's name for a timer. A
// revision is a request about the timer, counted from 1. Thus the judgment needs nothing but the requests:
//
//   - early: arrived more than 1 ms before X-Chronos-Due, or before sent + sequence × interval
//   - late: arrived more than the bound after X-Chronos-Due
//   - missing: not answered 2xx, although due + bound is before the end, and before the timer's next request was sent
//   - double: a second callback of the same pop that was answered 2xx
//   - altered: body, key, version, sequence number or due time differs from the request
//   - after_answer: arrived after the answer to a later refresh or end; 2 s later if the answer said in flight
//   - unasked: belongs to no request, or to a pop beyond the requested number of pops
//
// If the exact instant cannot be known from outside, the instant in the server's favor counts. A request took effect
// between the sending of the request and the reading of the answer. Therefore every reported violation is real.
package check
