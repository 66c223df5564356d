// Package webhooktest is a receiver of callbacks for tests. The receiver records every call, checks the
// contract of callbacks, and answers as told, failures included.
//
//	receiver := webhooktest.New(t)
//	receiver.Respond(webhooktest.Script(webhooktest.Answer{Status: 503}))
//	… a timer with receiver.URL() …
//	calls := receiver.WaitFor(t, 5*time.Second, webhooktest.AtLeast(2))
//
// A call that breaks the contract of callbacks fails the test at its end. A test with such calls on
// purpose takes the faults with [Receiver.Faults].
package webhooktest
