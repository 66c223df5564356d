// Package api is the HTTP edge: the public listener with the timers (Server, on Fiber) and the
// admin listener for operators (Admin, on net/http).
//
// The way of a request:
//
//   - Package transport reads the request, within bounds.
//   - The guard bounds the number of requests, asks for the right to make the request, and measures
//     the request (guard.go, authorize.go, metrics.go).
//   - Fiber finds the handler (routes.go, timers.go, listing.go, resync.go, statistics.go).
//   - The handler has package wire make one or more timers of the body, and calls Timers.
//   - Package wire writes the answer, or the problem.
//
// Fiber and fasthttp use the buffers of a request again once the request's handler has returned.
// Every string that goes to Timers is therefore a copy.
package api
