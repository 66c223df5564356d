// Package history is the record of a run of chronos under load or faults, and the checker that judges the record. The
// simulation, the fault tests and the load tests write the same format. The same code judges all of them.
//
// # The format
//
// A history is a file of JSON lines. Every line is an [Event]: an object with one member, whose name is the kind of
// the event.
//
//	{"header":{"mode":"liveness","seed":7,"shards":["a","b","c"],"rf":2,…}}
//	{"operation":{"kind":"create","invoke_ns":1000000,"return_ns":3000000,"outcome":"ok","status":200,"timer":{…},"answer":{…}}}
//	{"callback":{"arrive_ns":1004000000,"url":"http://receiver/1","key":"k1","version":"…","seq":1,"attempt":1,"status":200,…}}
//	{"fault":{"kind":"kill","class":"node_death","node":"n1","start_ns":…,"end_ns":…}}
//	{"fault":{"kind":"drain","class":"topology_change","start_ns":…,"end_ns":…,"active":2}}
//	{"home":{"key":"k1","shards":["b","a"],"from_ns":0,"until_ns":9000000000}}
//	{"copy":{"shard":"b","key":"k1","version":"…","seq":3,"attempt":0,"rank":0,"rf":2,"score_ms":1200}}
//	{"stray":{"shard":"a","key":"chronos:what"}}
//	{"sample":{"node":"n1","process":1,"phase":"begin","at_ns":…,"goroutines":41,"counters":{"fired_delivered":0}}}
//	{"end":{"at_ns":…,"dump_ns":…,"drained":true}}
//
// The header comes first. The end comes once, at the end. All lines between may come in any order. Instants are
// nanoseconds since the start of the run, by the harness's own monotonic clock; their members end in _ns. Members
// with durations end in _ms. Unknown members are refused.
//
// # Duties of a harness
//
//   - No two creates or replaces of a run ask for the same URL and body, so a callback shows its write without any
//     label. Two writes may share the URL alone or the body alone. Repeats with the same Idempotency-Key share URL
//     and body.
//   - A request without an answer is recorded as unknown, and so is a request that is still under way at the end. A
//     GET with 404 is ok, without a read. A 4xx is failed.
//   - The Class of a fault says which deviations the fault explains. The Kind is the harness's own name of the fault;
//     the checker counts faults by Kind. A fault that is not recorded explains nothing.
//   - A fault explains only deviations of the timers that the fault hurt. A Home says for how long a timer belonged
//     on which shards. Without a Home, a fault of any shard may have hurt the timer. A callback names the node that
//     called. Without a name, any node may have called.
//   - If the answer to a callback certainly never reached the node, the callback is recorded without an answer.
//   - The fault of a shard that was away or lost data may get RepairedNs. The shard counts as faulty until then, as
//     in the promises of chronos.
//   - Callbacks are recorded up to the end, also callbacks with an error as answer, or without an answer.
//
// # The checker
//
// [Check] is pure. Check judges a [History] against the fourteen invariants (see [Invariant]), by the tolerances of
// [Limits]. Invariant n is in inv<n>_….go. The last invariant looks at no label and is in label_free.go.
//
// If an instant can't be known from outside, the instant in the server's favor counts: every reported violation is a
// real violation. If the label-free check and an invariant from 1 to 13 see the same violation, both report the violation.
//
// A run passes only if the run proves something. The verdict is unknown if the run is too small, has too few faults,
// was cut short, or if an invariant could not be judged. Call Check outside of a synctest bubble: the process's clock
// bounds the search for an order of operations.
package history
