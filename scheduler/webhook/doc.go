// Package webhook delivers callbacks over HTTP: a [Client] is the
// [chronos/scheduler/dispatch.Deliverer] of the http lane.
//
// # What an attempt is
//
// One POST on one connection (request.go), and one look at the answer
// (answer.go). Its verdict is the status alone: 2xx is delivered, 410 is gone,
// anything else failed; redirects are not followed. The answer's body is read
// for two reasons only, to use the connection again and not to cut off a
// receiver that answers before it has done its work, so it is bounded and what
// becomes of it changes no verdict.
//
// # Never sent twice
//
// Deliver sends a request at most once. It goes on to another connection only if
// not one byte of the request was written: an idle connection is looked at right
// before it is used, and one that the receiver has closed, or has sent something
// on unasked, is dropped (stale_unix.go); so is one that takes no byte at all.
// That is no failed attempt. If the receiver closes a connection just when the
// request is under way, nobody can know whether it was read: the attempt failed,
// and the engine's retry carries the same webhook-id.
//
// # Deadline
//
// The context's deadline covers looking up the host, connecting, TLS, writing
// and reading, as deadlines of the connection; the context is looked at once
// more right before the first byte. If it is canceled before its deadline,
// Deliver returns within 50 ms (wire.go).
//
// # Where it may go
//
// A [Guard] is asked before a host is looked up, and again about each address
// right before it is connected to, so no resolver, spelling or redirect leads
// where it doesn't let go. A connection that is used again was let go there.
//
// # Signatures
//
// With secrets every request has the webhook-signature of Standard Webhooks,
// with one signature for each secret, so that receivers can change over from an
// old secret to a new one (secret.go).
//
// # Connections
//
// They are kept per destination and speak HTTP/1.1: a callback has one request
// and one short answer, and what is due at once is spread over many connections
// anyway. There are as many in use as calls of Deliver, so whoever calls bounds
// them; the idle ones are bounded by [Config]. There is no proxy and no cookie,
// no answer is decompressed, and a host that isn't written in ASCII must be given
// in its xn-- form.
package webhook
