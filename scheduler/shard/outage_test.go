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

// A claim that came too late leaves no write behind. Otherwise a create that happens once would be
// refused whenever the only other owner falls silent within seconds.
func TestOnlyWritesThatMayBeMissingCount(t *testing.T) {
	for name, c := range map[string]struct {
		fail func(*outage)
		want bool
	}{
		"a call":                  {(*outage).Failed, false},
		"a write":                 {(*outage).FailedWrite, true},
		"a write that is left":    {(*outage).Missed, true},
		"calls for a long time":   {func(o *outage) { o.Failed(); time.Sleep(timing.OutageAfter); o.Failed() }, true},
		"a call after the repair": {func(o *outage) { o.FailedWrite(); time.Sleep(timing.OutageOver); o.Over(); o.Failed() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOutage()
				time.Sleep(time.Second)
				c.fail(o)
				if o.LacksWrites() != c.want {
					t.Errorf("writes may be missing: %t, want %t", !c.want, c.want)
				}
			})
		})
	}
}
