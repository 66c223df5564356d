package history

import "time"

// Limits are the tolerances of the checker, and the least size of a run that proves anything.
type Limits struct {
	// MinOperations is the least number of operations. MinPerKind is the least number of operations of every kind
	// that occurs.
	MinOperations int
	MinPerKind    int
	// MinDone is the share of the operations of a kind that must have had a 2xx, if there were MinDoneOf operations.
	MinDone   float64
	MinDoneOf int
	// MinRequests is the least number of requests for a judgment of availability.
	MinRequests int
	// MinPerFault is how often every kind of fault must have been used.
	MinPerFault int
	// MinInWindows is the share of obligatory pops that must fall into fault windows, if the run has faults.
	MinInWindows float64

	// Early is how much before its time a callback may arrive.
	Early time.Duration
	// Late is how late a callback may be without faults.
	Late time.Duration
	// Gap is the longest interval at which a pop may be left out without a fault: nodes may look so seldom that the
	// next pop is due.
	Gap time.Duration
	// NodeWaiting is how late a timer may be if the timer waits while a node dies. A timer under way has the hold
	// time and NodeUnderWay.
	NodeWaiting  time.Duration
	NodeUnderWay time.Duration
	// Silence is how long nodes wait for a shard. ShardMargin is the further cost of a faulty shard, beyond Silence
	// and the skew.
	Silence     time.Duration
	ShardMargin time.Duration
	// Quiet is how long nothing may fire from a Redis after a restart or a loss of data: 2 s from when a node
	// notices. Noticing takes up to a second.
	Quiet time.Duration
	// Shift is how much later pops may be once a fault hurt an owner, as long as the timer lives. The promises allow
	// no shift. A harness sets Shift if the product is known to break this promise.
	Shift time.Duration
	// Hurt is how long after its end a fault explains duplicates.
	Hurt time.Duration
	// Duplicates is the share of callbacks that may be duplicates, whatever the explanation. DuplicatesCut is the
	// share if links were cut, answers were lost, or the recorder stood still with the links that the recorder plays.
	// Every run may have FewDuplicates: fewer than 1,000 callbacks show no share of 1 in 1,000.
	Duplicates    float64
	DuplicatesCut float64
	FewDuplicates int
	// TakesEffect is how long after the invocation a write of unknown outcome may still take effect.
	TakesEffect time.Duration
	// Recover is how long after the end of an outage of all copies a timer may be late.
	Recover time.Duration
	// OtherNode is how long a retry is left to other nodes.
	OtherNode time.Duration
	// Settle is how long after a callback its timer may be busy.
	Settle time.Duration
	// Network is how long a callback may take from the node to the receiver.
	Network time.Duration
	// InFlight is how long after an answer that says in flight a callback may start.
	InFlight time.Duration
	// AnswerMargin is how long before the limit an answer must be given to be certainly in time for the caller.
	AnswerMargin time.Duration

	// TombstoneLife and IdempotencyLife are how long a tombstone may live. Bury is how much longer the tombstone may
	// stay.
	TombstoneLife   time.Duration
	IdempotencyLife time.Duration
	Bury            time.Duration
	// Heal is how long after the last fault all copies must be in place. Busy is how close to its time a timer is
	// left alone.
	Heal time.Duration
	Busy time.Duration
	// Linearize bounds the search for an order of a timer's operations, by the process's own clock.
	Linearize time.Duration
	// Availability is the share of requests that must be answered within Answer.
	Availability float64
	Answer       time.Duration
	// Agree is how long after the start of a change of the shards nodes may not have agreed on the change.
	Agree time.Duration
	// Growth is the share by which memory, goroutines and descriptors may grow, in addition to the fixed Spare
	// amounts.
	Growth             float64
	SpareMemoryBytes   int64
	SpareGoroutines    int64
	SpareDescriptors   int64
	ViolationsDetailed int // of an invariant; the rest is only counted
}

// DefaultLimits are the limits for a run of full size.
func DefaultLimits() Limits {
	return Limits{
		MinOperations: 1000, MinPerKind: 50, MinRequests: 500, MinPerFault: 3, MinInWindows: 0.2, MinDone: 0.01, MinDoneOf: 200,
		Early: time.Millisecond, Late: 250 * time.Millisecond,
		NodeWaiting: 1500 * time.Millisecond, NodeUnderWay: time.Second,
		Silence: time.Second, ShardMargin: 500 * time.Millisecond, Recover: 15 * time.Second,
		Quiet: 3 * time.Second,
		Hurt:  3 * time.Second, Duplicates: 0.001, DuplicatesCut: 0.005, FewDuplicates: 1, TakesEffect: 3 * time.Second,
		OtherNode: time.Second, Settle: 50 * time.Millisecond,
		InFlight: 2 * time.Second, AnswerMargin: 250 * time.Millisecond,
		TombstoneLife: 2 * time.Minute, IdempotencyLife: time.Hour, Bury: 10 * time.Second,
		Heal: time.Minute, Busy: 2 * time.Second,
		Linearize: 10 * time.Second, Availability: 0.999, Answer: time.Second, Agree: 12 * time.Second,
		Growth: 0.25, SpareMemoryBytes: 32 << 20, SpareGoroutines: 50, SpareDescriptors: 50,
		ViolationsDetailed: 10,
	}
}
