package bridgetest

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestJudge: judge finds every breach.
func TestJudge(t *testing.T) {
	t.Parallel()
	zero := time.UnixMilli(1_800_000_000_000)
	at := func(ms int) time.Time { return zero.Add(time.Duration(ms) * time.Millisecond) }
	all := []sent{{deadline: at(1000), acknowledged: at(0)}, {deadline: at(-500), acknowledged: at(10), late: true}}
	fault := []window{{at(5000), at(9000)}}
	for _, c := range []struct {
		name      string
		first     []time.Time // when message 0 came; message 1 came at 30
		windows   []window
		want      verdict
		faultless bool
	}{
		{"on time", []time.Time{at(955)}, fault, verdict{}, true},
		{"as early as may be", []time.Time{at(949)}, nil, verdict{}, true},
		{"too early", []time.Time{at(948)}, fault, verdict{early: 1}, false},
		{"missing", nil, fault, verdict{missing: 1}, false},
		{"twice", []time.Time{at(960), at(4999)}, fault, verdict{unexcused: 1}, false},
		{"twice under a fault", []time.Time{at(5000), at(960)}, fault, verdict{twice: 1}, true},
		{"late", []time.Time{at(3000)}, nil, verdict{}, false},
		{"late under a fault", []time.Time{at(9100)}, []window{{at(8000), open}}, verdict{}, true},
	} {
		arrivals := map[int][]time.Time{1: {at(30)}}
		if c.first != nil {
			arrivals[0] = c.first
		}
		v := judge(all, arrivals, c.windows, 50*time.Millisecond)
		if v.early != c.want.early || v.missing != c.want.missing || v.twice != c.want.twice || v.unexcused != c.want.unexcused {
			t.Errorf("%s: %+v, want %+v", c.name, v, c.want)
		}
		if faults := v.faults(time.Second); (len(faults) == 0) != c.faultless {
			t.Errorf("%s: faults are %q", c.name, faults)
		}
		if v.sent != 2 || v.late != 1 || v.atOnce.latest != 20*time.Millisecond {
			t.Errorf("%s: %v", c.name, &v)
		}
	}
	if v := judge(all, map[int][]time.Time{0: {at(960)}, 1: {at(30)}, 2: {at(1)}}, nil, 0); v.unknown != 1 {
		t.Errorf("one that nobody sent: %+v", v)
	}
}

// TestDifference: difference finds every alteration, even null instead of empty.
func TestDifference(t *testing.T) {
	t.Parallel()
	for n := range 77 {
		if how := difference(n, newMessage(n)); how != "" {
			t.Fatalf("message %d differs from itself: %s", n, how)
		}
		for what, alter := range map[string]func(*kgo.Record){
			"key":        func(r *kgo.Record) { r.Key = append(r.Key, 0) },
			"value":      func(r *kgo.Record) { r.Value = append(r.Value, 0) },
			"no header":  func(r *kgo.Record) { r.Headers = r.Headers[1:] },
			"order":      func(r *kgo.Record) { r.Headers[1], r.Headers[4] = r.Headers[4], r.Headers[1] },
			"null":       func(r *kgo.Record) { r.Headers[2].Value = []byte{} },
			"empty":      func(r *kgo.Record) { r.Headers[3].Value = nil },
			"one of its": func(r *kgo.Record) { r.Headers = append(r.Headers, kgo.RecordHeader{Key: "chronosMessageId"}) },
		} {
			r := newMessage(n)
			if alter(r); difference(n, r) == "" {
				t.Errorf("message %d: altered %s is not found", n, what)
			}
		}
		in := delayed("in", n, time.Now())
		if m, ok := numberOf(in); !ok || m != n || len(in.Headers) != len(newMessage(n).Headers)+2 {
			t.Errorf("message %d is published as %v", n, in.Headers)
		}
	}
}
