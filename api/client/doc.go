// Package client creates, replaces, changes, reads and ends timers of chronos, and reads the callbacks of
// timers. The package needs the standard library alone.
//
//	timers, err := client.New("http://localhost:7253")
//	...
//	receipt, err := timers.Create(ctx, client.Timer{
//		Interval: 30 * time.Second,
//		URI:      "http://localhost:8080/expired",
//		Opaque:   "session 17",
//	})
//
// CreateBatch makes up to a thousand timers in one request, which costs a fraction of a thousand
// Creates.
//
// # Repeated requests
//
// The Client repeats a failed request only if a repetition can do no harm. Without WithTries a
// request is sent three times at most:
//
//   - Replace, Delete, Lookup, CreateOnce and CreateBatch with Once are repeated after 429, 503,
//     and any failure of a connection.
//   - Create, CreateBatch, Patch, and writes on a condition are repeated only if the node can't have
//     done anything: no connection, an answer 429, or 503 with the code overloaded or
//     condition-undecided.
//
// After any further failure of Create the timer may exist although Create returned an error, and a
// second call may make a second timer. CreateOnce has no such problem: call CreateOnce again with
// the same key.
//
// The Client doesn't repeat a batch in which only some timers failed. With Once, the caller may
// call CreateBatch again with the same timers.
//
// Between tries the Client waits as long as Retry-After asks for, and a little more at random. If
// the wait would be longer than ten seconds, or longer than the context lasts, the Client returns
// the error at once.
//
// # Callbacks
//
// ParseCallback reads a callback that a receiver gets. ParseCallback does not verify
// webhook-signature: if the operator has set secrets, use a library for Standard Webhooks
// (standardwebhooks.com) on the request's headers and Callback.Body.
package client
