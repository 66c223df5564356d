package timer

import "time"

// Receipt is the answer to an accepted write.
type Receipt struct {
	ID        ID        // valid from now on
	Version   Version   // of the write: the version of the timer or of the timer's end, or the revision
	Due       time.Time // when the next pop is due; zero for a delete
	Copies    int
	Unreached int
	InFlight  bool
	// Sites is how many sites have all copies of the write, of so many sites (AllSites); 0 without sites.
	Sites, AllSites int
	// Replayed says that an earlier request with the same idempotency key and body was accepted,
	// and made this timer.
	Replayed bool
	// Over says of a create with an idempotency key that its timer has fired or was deleted, so no
	// copies are left.
	Over bool
}

// Creation is one timer of a request for many, and the outcome.
type Creation struct {
	Timer Timer
	// IdempotencyKey makes the creation repeatable with this Body; "" for a plain creation.
	IdempotencyKey string
	Body           []byte
	// Prefix begins the key of the timer, before the part that chronos chooses or makes of the idempotency
	// key; "" for none. Prefix and that part must be a valid key together.
	Prefix string

	// Receipt and Err are the answer. A creation that already has an Err is left alone.
	Receipt Receipt
	Err     error
}
