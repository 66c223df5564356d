// Package api is the HTTP edge: the public listener with the timers (Server,
// on Fiber) and the admin listener for those who run the node (Admin, on
// net/http).
//
// The way of a request:
//
//   - The listener accepts the connection if there are not too many connections
//     (listener.go), and not too many of the same client (fresh.go).
//   - The connection refuses what could be read in two ways before fasthttp sees the
//     end of the request (conn.go, framing.go, chunks.go), and keeps a large body until
//     the body is whole and counted (held.go).
//   - fasthttp reads the request within its timeouts.
//   - The guard bounds the request and measures it (guard.go, metrics.go).
//   - Fiber finds the handler (timers.go, batch.go).
//   - The handler has package wire make one timer.Timer of the body, or many, and calls
//     Timers.
//   - Package wire writes the answer, or the problem.
//
// Fiber and fasthttp reuse the buffers of a request as soon as its handler has
// returned: every string that goes to Timers is a copy.
package api
