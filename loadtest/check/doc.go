// Package check judges callbacks: did each come when it was asked for, once, unaltered, and none after it was called off?
//
// Whoever makes the load tells the Checker of every request once it has been answered (Tell), with the instants before
// the request was sent and after the answer had been read; whoever receives the callbacks hands each over with its
// arrival (Arrive). All instants are of one machine's wall clock. Nothing here reads a clock, so a test may use any.
//
// A callback names what it belongs to in its path, /cb/<session>/<revision>: a session is the load's name for one timer,
// a revision is one request about it, counted from 1. So the judgment needs nothing but what was asked:
//
//   - early: arrived more than 1 ms before X-Chronos-Due, or before sent + sequence × interval
//   - late: arrived more than the bound after X-Chronos-Due
//   - missing: not answered 2xx although due + bound lies before the timer's next request was sent and before the end
//   - double: a second callback of one pop that was answered 2xx
//   - altered: body, key, version, sequence number or due time unlike what was asked
//   - after_answer: arrived after the answer to a later refresh or end; if that answer said in flight, 2 s after it
//   - unasked: belongs to no request, or to a pop that is not among those asked for
//
// Where the exact instant cannot be known from outside, the one in the server's favor counts: a request took effect no
// sooner than it was sent and no later than its answer was read, so no violation is reported that was none.
package check
