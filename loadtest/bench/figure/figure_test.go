package figure

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0}, {[]float64{7}, 7}, {[]float64{3, 1}, 2}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 3, 2}, 2.5},
	} {
		before := append([]float64(nil), test.values...)
		if got := Median(test.values); got != test.want {
			t.Errorf("median of %v is %v, want %v", test.values, got, test.want)
		}
		if diff := cmp.Diff(before, test.values); diff != "" {
			t.Errorf("the values were moved: %s", diff)
		}
	}
}

func TestQuantile(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i + 1)
	}
	for _, test := range []struct {
		q    float64
		want time.Duration
	}{{0, 1}, {.5, 50}, {.99, 99}, {.991, 100}, {.999, 100}, {1, 100}} {
		if got := Quantile(hundred, test.q); got != test.want {
			t.Errorf("quantile %v of 1 to 100 is %d, want %d", test.q, got, test.want)
		}
	}
	if got := Quantile(nil, .5); got != 0 {
		t.Errorf("quantile of none is %d", got)
	}
}

func TestRatioIsOfTheSameRun(t *testing.T) {
	var f Figures
	for run, values := range [][2]float64{{10, 5}, {30, 10}, {8, 8}} { // ratios 2, 3, 1
		f.Add("s", "a", "rate", values[0])
		f.Add("s", "b", "rate", values[1])
		if got := len(f.Values("s", "a", "rate")); got != run+1 {
			t.Fatalf("%d values after %d runs", got, run+1)
		}
	}
	if got, ok := f.Ratio("s", "a", "b", "rate"); !ok || got != 2 {
		t.Errorf("ratio %v, %v, want 2", got, ok)
	}
	f.Add("s", "zero", "rate", 0)
	if got, ok := f.Ratio("s", "a", "zero", "rate"); ok {
		t.Errorf("ratio to nothing is %v", got)
	}
	if got, ok := f.Ratio("s", "a", "none", "rate"); ok {
		t.Errorf("ratio to what was not measured is %v", got)
	}
	if diff := cmp.Diff([]string{"a", "b", "zero"}, f.Subjects("s")); diff != "" {
		t.Error(diff)
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 7: "7", -3: "-3", .0123: "0.012", .5: "0.50", 9.876: "9.88", 98.76: "98.8", 987.6: "988",
		1234.4: "1,234", 999_999.6: "1,000,000", 12_345_678: "12,345,678", -1234.6: "-1,235",
	} {
		if got := Number(v); got != want {
			t.Errorf("%v is written %q, want %q", v, got, want)
		}
	}
}

func TestTable(t *testing.T) {
	var f Figures
	for _, v := range []float64{40_000, 38_000, 41_000} {
		f.Add("create", "ours", "rate", v)
		f.Add("create", "a | b", "rate", v/2)
	}
	f.Add("create", "ours", "p99", 3)
	f.Add("other", "unseen", "rate", 1)
	table := Table{Section: "create", Title: "Create", Notes: []string{"A note."}, Ours: "ours", Columns: []Column{{"rate", "requests/s"}, {"p99", "p99 ms"}}}
	var out strings.Builder
	if err := table.Write(&out, &f); err != nil {
		t.Fatal(err)
	}
	want := `## Create

A note.

| | requests/s | p99 ms | ratio to ours |
|---|---:|---:|---:|
| ours | 40,000 (38,000 to 41,000) | 3 | 1 × |
| a \| b | 20,000 (19,000 to 20,500) |  | 0.50 × |

`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}
