// Package transport carries bytes to and from the public listener, below the handlers: the package
// bounds connections and bodies, and reads HTTP/1.1 strictly. fasthttp does the rest.
//
// The way of a request:
//
//   - The listener accepts the connection if there are not too many connections (listener.go,
//     idle.go), and not too many of the same client (fresh.go).
//   - The connection refuses an ambiguous request before fasthttp sees the end of the request
//     (conn.go, framing.go, target.go, chunks.go).
//   - The connection keeps a large body until the body is whole and counted (held.go, budget.go).
//   - fasthttp reads the request within the timeouts and calls the handler.
//   - Unreadable requests, and requests beyond a limit, are refused (refuse.go).
package transport
