// Package client creates, replaces, reads and ends timers of chronos, and reads
// the callbacks that come of them. It needs the standard library alone.
//
//	timers, err := client.New("http://localhost:7253")
//	...
//	receipt, err := timers.Create(ctx, client.Timer{
//		Interval: 30 * time.Second,
//		URI:      "http://localhost:8080/expired",
//		Opaque:   "session 17",
//	})
//
// CreateBatch makes up to a thousand timers in one request, which costs a fraction
// of as many Creates.
//
// # What is sent again
//
// A request that failed is sent again, three times in all unless WithTries says
// otherwise, where that can do no harm:
//
//   - Replace, Delete, Lookup, CreateOnce and CreateBatch with Once after 429, 503,
//     and whatever goes wrong with a connection;
//   - Create and CreateBatch only if the node can't have done anything: it could not be connected
//     to, or answered 429, or 503 with the code overloaded. After anything else
//     there may be a timer although Create returned an error, and calling it again
//     may make a second one. CreateOnce is free of this: call it again with the
//     same key.
//
// A timer of a batch that failed while others did not is not sent again: the
// caller may, with Once by calling CreateBatch again as it was.
//
// Between tries it waits as long as Retry-After asks for, and a little more at
// random, but not longer than ten seconds or than the context lasts: where it
// would have to, it returns the error at once.
//
// # Callbacks
//
// ParseCallback reads what a receiver gets. It does not verify webhook-signature:
// where the operator has set secrets, use a library for Standard Webhooks
// (standardwebhooks.com) on the request's headers and Callback.Body.
package client
