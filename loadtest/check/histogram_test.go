package check

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestHistogramQuantiles(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var whole, half histogram
	var all []time.Duration
	for i := range 20_000 {
		d := time.Duration(random.ExpFloat64() * float64(5*time.Millisecond))
		all = append(all, d)
		if i%2 == 0 {
			whole.add(d)
		} else {
			half.add(d)
		}
	}
	whole.merge(&half)
	slices.Sort(all)
	for _, q := range []float64{0, 0.5, 0.9, 0.99, 0.999} {
		exact := all[int(q*float64(len(all)))]
		got := whole.quantile(q)
		if got < exact || float64(got) > float64(exact)*1.008+float64(time.Microsecond) {
			t.Errorf("quantile(%v) = %s, exactly %s", q, got, exact)
		}
	}
	if whole.count != 20_000 || whole.min != all[0] || whole.max != all[len(all)-1] {
		t.Errorf("count %d, min %s, max %s", whole.count, whole.min, whole.max)
	}
}

func TestHistogramEdges(t *testing.T) {
	for _, d := range []time.Duration{-time.Second, 0, time.Microsecond, 255 * time.Microsecond, 256 * time.Microsecond, time.Hour, 1000 * time.Hour} {
		var h histogram
		h.add(d)
		if got := h.quantile(0.5); got != d {
			t.Errorf("quantile of %s alone = %s", d, got)
		}
	}
	previous := time.Duration(-1)
	for i := range bucketCount {
		if edge := upperEdge(i); edge <= previous || bucketOf(edge) != i || bucketOf(edge+1) != min(i+1, bucketCount-1) {
			t.Fatalf("bucket %d ends at %s, after %s", i, edge, previous)
		} else {
			previous = edge
		}
	}
}
