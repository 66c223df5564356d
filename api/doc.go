// Package api is the HTTP edge: the public listener with the timers (Server,
// on Fiber) and the admin listener for those who run the node (Admin, on
// net/http).
//
// A request goes this way: the connection is tracked (conn.go), fasthttp reads
// the request within its timeouts and limits, guard.go refuses what could be
// read in two ways and measures the rest (metrics.go), Fiber finds the handler
// (timers.go), the body becomes a scheduler.Timer (decode.go over scan.go and
// decimal.go), Timers does the work, and the answer is written (render.go, or
// problem.go if something is wrong).
//
// Fiber and fasthttp reuse the buffers of a request as soon as its handler has
// returned, so every string that goes to Timers is a copy.
package api
