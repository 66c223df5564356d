package timer

import "time"

// Receipt is the answer to an accepted write.
type Receipt struct {
	ID        ID        // valid from now on
	Due       time.Time // when the next pop is due; zero for a delete
	Copies    int
	Unreached int
	InFlight  bool
	// Replayed says that an earlier request with the same idempotency key and body
	// was accepted, and this is the timer it made.
	Replayed bool
	// Over says of a create with an idempotency key that its timer has fired or was
	// deleted, so that there are no copies of it.
	Over bool
}

// Creation is one timer of a request for many, and the outcome.
type Creation struct {
	Timer Timer
	// IdempotencyKey makes the creation one that may be repeated with this Body; "" for a plain one.
	IdempotencyKey string
	Body           []byte

	// Receipt and Err are the answer. A creation that has an Err before is left alone.
	Receipt Receipt
	Err     error
}
