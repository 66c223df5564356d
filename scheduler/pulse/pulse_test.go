package pulse

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// A quantile is never too short, and at most an eighth too long.
func TestQuantiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.Int64Range(0, 1<<rapid.IntRange(1, 44).Draw(t, "bits")).Draw(t, "ns"))
		}), 1, 200).Draw(t, "durations")
		var h histogram
		for _, d := range all {
			h.add(d)
		}
		slices.Sort(all)
		for _, q := range []float64{0, .5, .99, .999} {
			want := all[min(int(float64(len(all))*q), len(all)-1)]
			if got := h.quantile(q); got < want || float64(got) > float64(want)*9/8+1000 {
				t.Errorf("quantile %v is %v, want %v", q, got, want)
			}
		}
		if h.longest != all[len(all)-1] {
			t.Errorf("longest %v", h.longest)
		}
	})
	if got := (&histogram{}).quantile(.5); got != 0 {
		t.Errorf("%v of nothing", got)
	}
	h := histogram{}
	h.add(math.MaxInt64)
	if got := h.quantile(.5); got != endOf(buckets-1) {
		t.Errorf("%v of the longest duration", got)
	}
}

func TestFiguresAreOfTheLastSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Recorder
		if f := r.Figures(); f.Fired != 0 || f.Destinations != nil || f.Late != (Quantiles{}) {
			t.Errorf("before the first callback: %+v", f)
		}
		for i := range 300 { // 30 s
			r.Late(time.Duration(i%10) * time.Millisecond)
			r.Count(&Callback{Destination: "https://a:443", Took: 20 * time.Millisecond, Answer: "status 200"})
			if i%2 == 0 {
				r.Count(&Callback{Destination: "http://b:80", Took: time.Second, Failed: true, Answer: "status 503"})
			}
			time.Sleep(100 * time.Millisecond)
		}
		f := r.Figures()
		if math.Abs(f.Fired-10) > .5 || math.Abs(f.Failed-5) > .5 || f.Late.Max != 9*time.Millisecond || f.Late.P50 < 5*time.Millisecond || f.Late.P50 > 6*time.Millisecond {
			t.Errorf("%+v, want 10 and 5 a second, 0 to 9 ms late", f)
		}
		if len(f.Destinations) != 2 || f.Destinations[0].Destination != "https://a:443" || f.Destinations[1].Last != "status 503" ||
			f.Destinations[1].P99 < time.Second || f.Destinations[1].Fired != 0 {
			t.Errorf("%+v", f.Destinations)
		}
		time.Sleep(5 * time.Second)
		if f := r.Figures(); f.Fired == 0 || f.Fired > 10 {
			t.Errorf("%v a second soon after the last", f.Fired)
		}
		time.Sleep(5 * time.Second)
		if f := r.Figures(); f.Fired != 0 || f.Destinations != nil || f.Late != (Quantiles{}) {
			t.Errorf("long after the last: %+v", f)
		}
		time.Sleep(time.Hour)
		r.Count(&Callback{Destination: "https://a:443"})
		if f := r.Figures(); f.Fired < .1 || f.Fired > .2 {
			t.Errorf("%v a second, want one in 5 to 10 s", f.Fired)
		}
	})
}

// However many destinations clients make up, a node remembers some, and forgets idle ones for new ones.
func TestDestinationsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Recorder
		for i := range 3 * maxDestinations {
			r.Count(&Callback{Destination: fmt.Sprint(i)})
		}
		if n := len(r.Figures().Destinations); n != maxDestinations {
			t.Errorf("%d destinations, want %d", n, maxDestinations)
		}
		time.Sleep(2*half + time.Second)
		r.Count(&Callback{Destination: "new"})
		if f := r.Figures(); len(f.Destinations) != 1 || f.Destinations[0].Destination != "new" || len(r.by) != 1 {
			t.Errorf("%d of %d", len(f.Destinations), len(r.by))
		}
	})
}

func TestTextIsShortAndTellsTheBusiest(t *testing.T) {
	own := Identity{Host: strings.Repeat("h", 300), Version: "v0.2.0\n", Format: 2, Started: time.UnixMilli(1_800_000_000_000), Public: "[::]:7253", Admin: "127.0.0.1:7254"}
	f := Figures{Fired: 1234.56, Late: Quantiles{P50: 1234567 * time.Nanosecond, Max: time.Minute}}
	load := map[string]Load{"https://idle:443": {InFlight: 1e6, Waiting: 7}}
	for i := range 500 {
		f.Destinations = append(f.Destinations, Busy{Destination: fmt.Sprintf("https://%d.%s:443", i, strings.Repeat("é<", 200)), Fired: float64(500 - i), Last: strings.Repeat("x\u202e", 99)})
	}
	text, err := Text(own, &f, 12, load)
	if err != nil {
		t.Fatal(err)
	}
	whole := `{"at_ms":1795221099878,` + text
	n, err := Parse(whole)
	switch {
	case err != nil || len(whole) > MaxText || !json.Valid([]byte(whole)):
		t.Fatalf("%d bytes, %v: %s", len(whole), err, whole)
	case n.AtMs != 1795221099878 || n.Timers != (Timers{Fired: 1234.6, InFlight: 12}) || n.LateMs != (LateMs{P50: 1.23, Max: 60000}) || !n.Started.Equal(own.Started):
		t.Errorf("%+v", n)
	case n.Host != strings.Repeat("h", 64) || n.Version != "v0.2.0?" || n.Format != 2 || n.Admin != own.Admin:
		t.Errorf("%+v", n.Identity)
	case len(n.Destinations) < 4 || n.Destinations[0].Destination != "https://idle:443" || n.Destinations[0].Waiting != 7 || n.Destinations[1].Fired != 500:
		t.Errorf("%d destinations: %+v", len(n.Destinations), n.Destinations)
	}
	short := Figures{Destinations: f.Destinations[:0:0]}
	for i := range 30 {
		short.Destinations = append(short.Destinations, Busy{Destination: fmt.Sprintf("http://%d:80", i), Fired: 1})
	}
	if text, err = Text(own, &short, 0, nil); err != nil {
		t.Fatal(err)
	}
	if n, err = Parse(`{"at_ms":1,` + text); err != nil || len(n.Destinations) != maxTold {
		t.Errorf("%d destinations with short names, %v; want %d", len(n.Destinations), err, maxTold)
	}
}

// The text of a node comes from Redis, so the text may be anybody's.
func FuzzParse(f *testing.F) {
	f.Add(`{"at_ms":1,"host":"\u202e","timers":{"fired":1e300,"in_flight":-5},"destinations":[{"destination":"\u0000","p99_ms":-1}]}`)
	f.Add(`{"at_ms":9223372036854775807,"started_ms":-9223372036854775808}`)
	f.Add(`[]`)
	f.Fuzz(func(t *testing.T, text string) {
		n, err := Parse(text)
		if err != nil {
			return
		}
		if len(n.Destinations) > maxTold || n.Timers.Fired < 0 || n.Timers.Fired > 1e12 || n.Timers.InFlight < 0 {
			t.Errorf("%+v", n)
		}
		for _, d := range n.Destinations {
			if strings.ContainsFunc(d.Destination, func(r rune) bool { return r < ' ' || r == '\u202e' }) || d.P99Ms < 0 {
				t.Errorf("%+v", d)
			}
		}
	})
}

func BenchmarkCount(b *testing.B) {
	var r Recorder
	c := &Callback{Destination: "https://a:443", Took: time.Millisecond}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r.Late(time.Millisecond)
			r.Count(c)
		}
	})
}
