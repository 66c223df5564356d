// Package api is the HTTP edge: the public listener with the timers (Server,
// on Fiber) and the admin listener for those who run the node (Admin, on
// net/http).
//
// A request goes this way: its connection is accepted if there are not too many
// (listener.go), nor too many of its client (fresh.go), what could be read in two
// ways is refused before fasthttp sees the end of it (conn.go over framing.go and
// chunks.go), a large body is kept until it is whole and counted (held.go),
// fasthttp reads the request within its timeouts, guard.go bounds and measures it
// (metrics.go), Fiber finds the handler (timers.go, batch.go), the body becomes a
// scheduler.Timer or many (decode.go over scan.go and decimal.go), Timers does the
// work, and the answer is written (render.go, or problem.go if something is wrong).
//
// Fiber and fasthttp reuse the buffers of a request as soon as its handler has
// returned, so every string that goes to Timers is a copy.
package api
