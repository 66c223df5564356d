// Package webhooktest is a receiver of callbacks for tests: it records every
// call, checks that it is what chronos promises to send, and answers as it is
// told to, failures included.
//
//	receiver := webhooktest.New(t)
//	receiver.Respond(webhooktest.Script(webhooktest.Answer{Status: 503}))
//	… a timer with receiver.URL() …
//	calls := receiver.WaitFor(t, 5*time.Second, webhooktest.AtLeast(2))
//
// A call that breaks the contract of callbacks fails the test when it ends; a
// test that means to make such calls takes them with [Receiver.Faults].
package webhooktest
