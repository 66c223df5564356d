// Package transport is the way of bytes to and from the public listener, below the
// handlers: it bounds connections and bodies, and reads HTTP/1.1 strictly. fasthttp
// does the rest.
//
// The way of a request:
//
//   - The listener accepts the connection if there are not too many connections
//     (listener.go, idle.go), and not too many of the same client (fresh.go).
//   - The connection refuses what could be read in two ways before fasthttp sees the
//     end of the request (conn.go, framing.go, target.go, chunks.go), and keeps a large
//     body until the body is whole and counted (held.go, budget.go).
//   - fasthttp reads the request within its timeouts and calls the handler.
//   - What can't be read, or is too much, is refused (refuse.go).
package transport
