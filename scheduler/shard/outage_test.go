package shard

import (
	"testing"
	"testing/synctest"
	"time"

	"chronos/scheduler/timing"
)

// A short outage is forgotten, since the failed writes are repaired. If a write can't be repaired,
// a short outage counts, too.
func TestAShortOutageCountsIfItsWritesAreNotRepaired(t *testing.T) {
	for name, c := range map[string]struct {
		fail func(*outage)
		want bool
	}{
		"repaired":     {(*outage).Failed, false},
		"not repaired": {(*outage).Missed, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOutage()
				time.Sleep(time.Second)
				c.fail(o)
				time.Sleep(timing.OutageOver + time.Second)
				if _, over := o.Over(); over != c.want {
					t.Errorf("an outage that is over: %t, want %t", over, c.want)
				}
				o.Forget()
				if _, over := o.Over(); over || o.Pending() {
					t.Error("it is not forgotten")
				}
			})
		})
	}
}
