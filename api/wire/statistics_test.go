package wire

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"chronos/api/apitest"
	"chronos/scheduler/statistics"
	"chronos/scheduler/timer"
)

// The written answer is never longer than the reserved size, whatever types clients choose.
func TestStatisticsOfHostileTypes(t *testing.T) {
	found := statistics.Sums{Tags: map[string]int64{}}
	size := 64
	for i := range statistics.MaxTagTypes {
		typ := strings.Repeat(string(rune(1+i%31)), timer.MaxTagType-4) + fmt.Sprintf("%04d", i)
		found.Tags[typ] = math.MaxInt64
		size += 64 + 6*len(typ)
	}
	body := RenderStatistics(&found)
	if len(body) > size {
		t.Errorf("%d bytes, more than the %d that are set aside", len(body), size)
	}
	if have := len(apitest.Parse[struct{ Tags map[string]int64 }](t, body).Tags); have != statistics.MaxTagTypes {
		t.Errorf("%d types, want %d", have, statistics.MaxTagTypes)
	}
}
