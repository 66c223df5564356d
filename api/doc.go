// Package api is the HTTP edge: the public listener with the timers (Server,
// on Fiber) and the admin listener for those who run the node (Admin, on
// net/http).
//
// The way of a request:
//
//   - Package transport reads the request, within bounds.
//   - The guard bounds the number of requests, asks for the right to make the request,
//     and measures it (guard.go, authorize.go, metrics.go).
//   - Fiber finds the handler (routes.go, timers.go, resync.go, statistics.go).
//   - The handler has package wire make one timer.Timer of the body, or many, and calls
//     Timers.
//   - Package wire writes the answer, or the problem.
//
// Fiber and fasthttp reuse the buffers of a request as soon as its handler has
// returned: every string that goes to Timers is a copy.
package api
