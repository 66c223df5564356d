// Package webhook delivers callbacks over HTTP: a [Client] is the
// [chronos/scheduler/dispatch.Deliverer] for the deliverer kind http.
//
// # An attempt
//
// An attempt is one request on one connection (request.go), and one look at the answer (answer.go). The
// verdict is the status alone: 2xx is delivered, 410 is gone, and any other status failed. Redirects
// are not followed. The client reads the answer's body only to use the connection again, and not to cut
// off a receiver that answers before its work is done. The body is therefore bounded, and changes no
// verdict.
//
// # Never sent twice
//
// Deliver sends a request at most once. Deliver takes another connection only if no byte of the request
// was written. The client looks at an idle connection right before use. The client drops the connection
// if the receiver has closed the connection, or has sent something unasked (stale_unix.go). A
// connection that takes no byte at all is dropped, too. None of these cases is a failed attempt. A
// receiver may close a connection while the request is under way, and nobody can know whether the
// receiver read the request. The attempt has then failed, and the engine's retry carries the same
// webhook-id.
//
// # Deadline
//
// The context's deadline covers the lookup of the host, connecting, TLS, writing and reading, as
// deadlines of the connection. The client looks at the context once more right before the first byte.
// If the context is canceled before the deadline, Deliver returns within 50 ms (wire.go).
//
// # Allowed destinations
//
// The client asks a [Guard] before the lookup of a host, and again about every address right before
// connecting. No resolver, spelling or redirect can therefore lead to a forbidden address. A connection
// that is used again was allowed at its start.
//
// # Signatures
//
// With secrets every request has the webhook-signature of Standard Webhooks, with a signature for every
// secret. Receivers can therefore change over from an old secret to a new secret (secret.go).
//
// # Connections
//
// Connections are kept per destination and speak HTTP/1.1. A callback has a single request and a short
// answer, and callbacks that are due at once are spread over many connections anyway. As many
// connections are in use as calls of Deliver, so the caller bounds the connections in use. [Config]
// bounds the idle connections. The client uses no proxy and no cookies, and decompresses no answer. A
// host that isn't written in ASCII must be given in its xn-- form.
package webhook
