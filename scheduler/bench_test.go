package scheduler_test

import (
	"strings"
	"testing"
	"time"

	"chronos/scheduler/timer"
)

const benchedID = "01a1fb85e06c712ab4c17a3759564143-2-2010000000000040"

func BenchmarkParseID(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if id, err := timer.ParseID(benchedID); err != nil || id.RF != 2 {
			b.Fatalf("%+v, %v", id, err)
		}
	}
}

func BenchmarkAppendID(b *testing.B) {
	b.ReportAllocs()
	id, err := timer.ParseID(benchedID)
	if err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, 0, len(benchedID))
	for b.Loop() {
		buf = id.Append(buf[:0])
	}
	if string(buf) != benchedID {
		b.Fatalf("written as %s", buf)
	}
}

func BenchmarkValidate(b *testing.B) {
	b.ReportAllocs()
	asked := timer.Timer{
		Interval: time.Minute, RepeatFor: time.Hour, ReplicationFactor: 2,
		Callback: timer.Callback{URI: "http://127.0.0.1:9000/callbacks/abcdefghijklmnopqr", Opaque: strings.Repeat("x", 100)},
		Tags:     []timer.Tag{{Type: "CALL", Count: 1}},
	}
	for b.Loop() {
		if err := asked.Validate(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendInstant(b *testing.B) {
	b.ReportAllocs()
	at, buf := time.UnixMilli(1_795_227_168_508), make([]byte, 0, 32)
	for b.Loop() {
		buf = timer.AppendInstant(buf[:0], at)
	}
}
