// Package history is the record of a run of chronos under load or faults, and the checker that judges it. The simulation,
// the fault tests and the load tests write the same format, and are judged by the same code.
//
// # The format
//
// A history is a file of JSON lines; each is an [Event], an object with one member that says what it is:
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
// The header comes first and the end once, at the end; nothing else has an order. Instants are nanoseconds since the run's
// start by the harness's own monotonic clock, in members that end in _ns; durations are in members that end in _ms. Members
// that are not known are refused.
//
// # What a harness must see to
//
//   - Each create and replace asks for a URL and body that no other one of the run asks for (one of both may be shared), so
//     that a callback tells its write without any label. Repeats with the same Idempotency-Key share both.
//   - A request without an answer, or one that is still under way at the end, is recorded as unknown. A GET that says 404
//     is ok, without a read. A 4xx is failed.
//   - A fault's Class says what it explains; its Kind is the harness's own name for it, and is counted. A fault that is
//     not recorded explains nothing.
//   - A fault explains what it hurt. A Home says for how long a timer belonged on which shards: without one, a fault of any
//     shard may have hurt it. A callback names the node that made it: without a name, any may have.
//   - A callback whose answer certainly never reached the node was not answered.
//   - A shard that was away or lost data may get RepairedNs: until then it counts as faulty, as the promises have it.
//   - Callbacks are recorded up to the end, those that were answered with an error or not at all as well.
//
// # The checker
//
// [Check] is pure: it judges a [History] against the fourteen invariants (see [Invariant]; number n is in inv<n>_….go, the
// last one, which looks at no label, in label_free.go), by the tolerances of [Limits]. Where an instant can't be known
// from outside, the one in the server's favor counts, so that no violation is reported that was none. What both 1 to 13
// and the label-free check see is reported by both.
//
// A run passes only if it proves something: one too small, with too few faults, cut short, or in which an invariant could
// not be judged, is unknown. Call Check outside of a synctest bubble: the search for an order of operations is
// bounded by the process's clock.
package history
