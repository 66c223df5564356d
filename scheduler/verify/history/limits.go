package history

import "time"

// Limits are the tolerances of the checker, and how much a run must have done to prove anything.
type Limits struct {
	// MinOperations is the least number of operations, MinPerKind that of each kind which occurs.
	MinOperations int
	MinPerKind    int
	// MinRequests is the least number of requests that availability is judged by.
	MinRequests int
	// MinPerFault is how often each kind of fault must have been used.
	MinPerFault int
	// MinInWindows is the share of obligatory pops that must fall into fault windows, in a run that has faults.
	MinInWindows float64

	// Early is how much before its time a callback may arrive.
	Early time.Duration
	// Late is how late a callback may be without faults.
	Late time.Duration
	// Gap is up to what interval a pop may be left out without a fault, where nodes look so seldom that the next one is due.
	Gap time.Duration
	// NodeWaiting is how late a timer may be that waits while a node dies; one under way has the hold time and NodeUnderWay.
	NodeWaiting  time.Duration
	NodeUnderWay time.Duration
	// Silence is how long a shard is waited for, ShardMargin what a faulty one may cost beyond that and the skew.
	Silence     time.Duration
	ShardMargin time.Duration
	// Quiet is how long after a Redis has restarted, or lost data, nothing may fire from there: 2 s from when a node notices, which
	// takes up to a second.
	Quiet time.Duration
	// Shift is how much later pops may be once a fault hurt an owner, for as long as the timer lives: by the promises not at all.
	// A harness sets Shift where it knows that the product does not hold that.
	Shift time.Duration
	// Hurt is how long after its end a fault explains duplicates.
	Hurt time.Duration
	// Duplicates is the share of callbacks that may be duplicates, whatever explains them. DuplicatesCut is that of a run in which
	// links were cut, answers were lost, or the recorder stood still with the links that it plays. FewDuplicates are allowed to
	// any run: fewer than 1,000 callbacks show no share of 1 in 1,000.
	Duplicates    float64
	DuplicatesCut float64
	FewDuplicates int
	// TakesEffect is how long after its invocation a write of unknown outcome takes effect, if it does at all.
	TakesEffect time.Duration
	// Recover is how long after the end of an outage of all copies a timer may be late.
	Recover time.Duration
	// OtherNode is how long a retry is left to other nodes.
	OtherNode time.Duration
	// Settle is how long after a callback its timer may be busy.
	Settle time.Duration
	// Network is how long after a node sent a callback it may arrive.
	Network time.Duration
	// InFlight is how long after an answer that says in flight a callback may start.
	InFlight time.Duration
	// AnswerMargin is how much before the limit an answer must be given so that the caller certainly had it in time.
	AnswerMargin time.Duration

	// TombstoneLife and IdempotencyLife are how long a tombstone may live, Bury how long after that it may be there.
	TombstoneLife   time.Duration
	IdempotencyLife time.Duration
	Bury            time.Duration
	// Heal is how long after the last fault all copies must be in place; Busy is how close to its time a timer is left alone.
	Heal time.Duration
	Busy time.Duration
	// Linearize bounds the search for an order of one timer's operations, by the process's own clock.
	Linearize time.Duration
	// Availability is the share of requests that must be answered, Answer within what time.
	Availability float64
	Answer       time.Duration
	// Growth is by what share memory, goroutines and descriptors may grow, beyond the amounts that are allowed to each.
	Growth             float64
	SpareMemoryBytes   int64
	SpareGoroutines    int64
	SpareDescriptors   int64
	ViolationsDetailed int // of each invariant; the others are counted only
}

// DefaultLimits are those that a run of full size is judged by.
func DefaultLimits() Limits {
	return Limits{
		MinOperations: 1000, MinPerKind: 50, MinRequests: 500, MinPerFault: 3, MinInWindows: 0.2,
		Early: time.Millisecond, Late: 250 * time.Millisecond,
		NodeWaiting: 1500 * time.Millisecond, NodeUnderWay: time.Second,
		Silence: time.Second, ShardMargin: 500 * time.Millisecond, Recover: 15 * time.Second,
		Quiet: 3 * time.Second,
		Hurt:  3 * time.Second, Duplicates: 0.001, DuplicatesCut: 0.005, FewDuplicates: 1, TakesEffect: 3 * time.Second,
		OtherNode: time.Second, Settle: 50 * time.Millisecond,
		InFlight: 2 * time.Second, AnswerMargin: 250 * time.Millisecond,
		TombstoneLife: 2 * time.Minute, IdempotencyLife: time.Hour, Bury: 10 * time.Second,
		Heal: time.Minute, Busy: 2 * time.Second,
		Linearize: 10 * time.Second, Availability: 0.999, Answer: time.Second,
		Growth: 0.25, SpareMemoryBytes: 32 << 20, SpareGoroutines: 50, SpareDescriptors: 50,
		ViolationsDetailed: 10,
	}
}
