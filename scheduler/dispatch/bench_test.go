package dispatch

import (
	"testing"

	"chronos/scheduler/destinations"
	"chronos/scheduler/flow"
	"chronos/scheduler/settings"
)

// BenchmarkExpire takes due claims to their slots, and frees the slots again.
func BenchmarkExpire(b *testing.B) {
	d := &Dispatcher{config: &settings.Config{Destinations: destinations.NewBook(nil)}, slots: newSlots(4096)}
	l := &lane{d: d, credit: flow.NewCredit(4096)}
	due := make([]turn, 64)
	for i := range due {
		due[i].claim = &claim{lane: l, destination: "http://receiver.example:80"}
	}
	b.ReportAllocs()
	for b.Loop() {
		l.fences = flow.NewQueue[*claim]()
		d.expire(due)
		for i := range due {
			d.freeSlot(due[i].claim)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(due)), "ns/claim")
}
