package timer_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"chronos/scheduler/timer"
)

func TestAppendInstant(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		at := time.UnixMicro(rapid.Int64Range(-80_000_000_000_000_000, 260_000_000_000_000_000).Draw(rt, "us")).
			In(time.FixedZone("", rapid.IntRange(-12, 12).Draw(rt, "zone")*3600))
		if have, want := string(timer.AppendInstant([]byte("at "), at)), "at "+at.UTC().Format("2006-01-02T15:04:05.000Z"); have != want {
			rt.Fatalf("%v is %s, want %s", at, have, want)
		}
	})
}
